/** Folders of a data directory as they are met in a start: which are partitions of this cluster, and what becomes of the others. */
import { randomUUID } from 'node:crypto';
import type { Logger } from '../runtime/logging.ts';
import { PARTITION_METADATA_FILE, partitionMetadataText } from './checkpoints.ts';
import type { Files } from './log.ts';
import { readTopicId } from './partition-loader.ts';
import { suffixedFolder, suffixOf } from './partition-names.ts';
import { offsetOfFileName } from './segment-names.ts';

export class PartitionFolders {
  readonly #files: Files;
  readonly #dataDir: string;
  readonly #logger: Logger;

  constructor(files: Files, dataDir: string, logger: Logger) {
    this.#files = files;
    this.#dataDir = dataDir;
    this.#logger = logger;
  }

  /** Meets a folder whose name is no partition's. What is given is its removal, where it waits for that. */
  meetForeign(name: string): Promise<void> | undefined {
    const path = `${this.#dataDir}/${name}`;
    switch (suffixOf(name)) {
      case 'delete':
        return this.#files.removeTree(path);
      case 'stray':
      case 'future':
        this.#logger.warn({ path }, 'folder of a partition that was set aside; it is not served');
        break;
      default:
        this.#logger.warn({ path }, 'folder is no partition; Apache Kafka does not start beside it');
    }
    return undefined;
  }

  /** False if the folder is not that of the topic with this id (undefined: of none); it was set aside then. */
  async belongs(topic: string, index: number, dir: string, expected: string | undefined): Promise<boolean> {
    const found = await readTopicId(this.#files, dir);
    if (expected !== undefined && found === expected) return true;
    const topicId =
      found !== undefined && expected !== undefined && isAlmost(found, expected) ? undefined : found;
    const entries = await this.#files.list(dir);
    // Quarantined bytes of segments too.
    const logs = entries.filter((entry) => entry.name.includes('.log'));
    const logBytes = logs.reduce((sum, entry) => sum + entry.size, 0);
    const isEmpty = logBytes === 0 && logs.every((entry) => offsetOfFileName(entry.name) === 0);
    if (topicId === undefined && isEmpty) {
      // Its creation was cut short before it could hold a byte.
      await this.#files.removeTree(dir);
      return false;
    }
    if (topicId === undefined && expected !== undefined) {
      // The file is on disk before a partition's first byte, and a deleted topic's folder has another name: it was damaged.
      const path = `${dir}/${PARTITION_METADATA_FILE}`;
      await this.#files.writeAtomic(path, partitionMetadataText(expected));
      this.#logger.warn({ path, topicId: expected }, 'topic id is missing or damaged, and was written again');
      return true;
    }
    const stray = suffixedFolder(topic, index, randomUUID(), 'stray');
    await this.#files.rename(dir, `${this.#dataDir}/${stray}`);
    this.#logger.warn(
      { topic, partition: index, topicId, expected, logBytes, folder: stray },
      'folder belongs to no known partition and was set aside; nothing in it was changed',
    );
    return false;
  }
}

/** Whether two ids differ in one character: ids are random, so that one byte of one of them was altered. */
function isAlmost(one: string, other: string): boolean {
  let differing = 0;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) differing++;
  return one.length === other.length && differing === 1;
}
