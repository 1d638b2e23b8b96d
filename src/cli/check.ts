/** `broadsheet check`: looks for damage in a data directory, or one partition's folder, that no broker uses. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { chooseEngine, makeEngine } from '../broker/engines.ts';
import {
  CLEAN_SHUTDOWN_FILE,
  CLEANER_FILE,
  HIGH_WATERMARK_FILE,
  LOG_START_FILE,
  OffsetCheckpoint,
  RECOVERY_POINT_FILE,
} from '../log/checkpoints.ts';
import type { Files } from '../log/log.ts';
import { LOG_START_COPY_FILE, type LogStart, LogStarts } from '../log/log-starts.ts';
import { checkPartition, type Fault, type PartitionReport } from '../log/partition-check.ts';
import { readTopicId } from '../log/partition-loader.ts';
import { parsePartitionFolder, partitionFolder, suffixOf } from '../log/partition-names.ts';
import { fileError } from '../log/segment-file.ts';
import { segmentFileName } from '../log/segment-names.ts';
import { replayClosed } from '../metadata/closed-log.ts';
import type { ClusterImage } from '../metadata/image.ts';
import {
  latestEpoch,
  METADATA_FOLDER,
  parseQuorumState,
  readEpochs,
  readKnownEnd,
  readQuorumState,
  snapshotNames,
} from '../metadata/kraft-files.ts';
import {
  META_PROPERTIES_COPY_FILE,
  META_PROPERTIES_FILE,
  parseMetaProperties,
  parseMetaPropertiesCopy,
} from '../metadata/meta-properties.ts';
import { readSnapshot } from '../metadata/snapshot.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { silentLogger } from '../runtime/logging.ts';
import { bytesText, counted, endWithReader, note, Progress, print, printJson } from './output.ts';

interface CheckOptions {
  readonly deep?: boolean;
  readonly json?: boolean;
  readonly repair?: boolean;
}

const LOCK_FILE = '.lock';
/** A segment is named by its base offset. */
const SEGMENT_FILE = /^\d{20}\.log$/;
const CHECKPOINTS = [
  RECOVERY_POINT_FILE,
  LOG_START_FILE,
  LOG_START_COPY_FILE,
  HIGH_WATERMARK_FILE,
  CLEANER_FILE,
];

async function check(given: string, options: CheckOptions): Promise<void> {
  endWithReader();
  await checkDirectory(given, options);
}

/** Prints what is wrong; throws CORRUPT where something is. */
export async function checkDirectory(given: string, options: CheckOptions): Promise<void> {
  const dir = resolve(given);
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    throw fileError(dir, error);
  }
  const isPartition = !names.includes(META_PROPERTIES_FILE) && names.some((name) => SEGMENT_FILE.test(name));
  if (!isPartition && !names.includes(META_PROPERTIES_FILE) && !names.some(parsePartitionFolder)) {
    throw new BroadsheetError('NOT_FOUND', `${dir} is neither a data directory nor a partition's folder`);
  }
  const release = await lockDirectory(isPartition ? dirname(dir) : dir);
  try {
    const inspect = async () => {
      const inspection = new DirectoryCheck(dir, options);
      await (isPartition ? inspection.partitionAlone() : inspection.all(await readdir(dir)));
      return inspection;
    };
    let found = await inspect();
    const repaired: Fault[] = [];
    // What the metadata log says of others is known when that is whole.
    for (let round = 0; options.repair && round < 2; round++) {
      const done = await found.repair();
      if (done.length === 0) break;
      repaired.push(...done);
      found = await inspect();
    }
    await found.report(repaired);
  } finally {
    await release();
  }
}

/** Through the addon, or without it. */
async function anyFiles(): Promise<Files> {
  return (await makeEngine(await chooseEngine('auto', silentLogger))).files;
}

/** Keeps brokers out meanwhile. Throws LOCKED when one is in. */
export async function lockDirectory(dataDir: string): Promise<() => Promise<void>> {
  const files = await anyFiles();
  const path = join(dataDir, LOCK_FILE);
  const existed = await files.exists(path);
  if (!existed && !(await files.exists(join(dataDir, META_PROPERTIES_FILE)))) return async () => {};
  try {
    const held = await files.lock(path, `${process.pid}\n`);
    return async () => {
      if (!existed) await files.remove(path);
      await held.release();
    };
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    if (error.code === 'LOCKED') {
      throw new BroadsheetError('LOCKED', `${error.message}: stop that broker first, or check a copy`);
    }
    note(`${path} can't be locked (${error.message}): make sure that no broker uses the directory`);
    return async () => {};
  }
}

class DirectoryCheck {
  readonly #dir: string;
  readonly #options: CheckOptions;
  readonly #faults: Fault[] = [];
  readonly #remarks: Fault[] = [];
  readonly #partitions = new Map<string, PartitionReport>();
  #checkpoints: ReadonlyMap<string, OffsetCheckpoint> = new Map();
  #logStarts: LogStarts | undefined;
  /** Of the metadata log. */
  #metadataEnd = 0;
  /** Undefined where it is not there, or damaged. */
  #image: ClusterImage | undefined;
  #total = 0;
  #done = 0;

  constructor(dir: string, options: CheckOptions) {
    this.#dir = dir;
    this.#options = options;
  }

  /** Repairs what can be, gives what was done. */
  async repair(): Promise<readonly Fault[]> {
    const { repair } = await import('./check-repair.ts');
    const state = {
      files: await anyFiles(),
      dir: this.#dir,
      partitions: this.#partitions,
      checkpoints: this.#checkpoints,
      knownEnd: (folder: string) => this.#knownEnd(folder),
    };
    return repair(state, this.#faults);
  }

  async partitionAlone(): Promise<void> {
    await this.#partition(basename(this.#dir), this.#dir, '', true);
  }

  async all(names: readonly string[]): Promise<void> {
    const clean = names.includes(CLEAN_SHUTDOWN_FILE);
    if (!clean) {
      this.#remarks.push({
        file: CLEAN_SHUTDOWN_FILE,
        what: 'is missing: the last stop was not a clean one, and the next start looks for torn ends',
      });
    }
    await this.#properties(names);
    const checkpoints = new Map<string, OffsetCheckpoint>();
    for (const name of CHECKPOINTS) {
      if (!names.includes(name)) continue;
      const checkpoint = await this.#parsed(name, (text) => OffsetCheckpoint.parse(text));
      if (checkpoint === undefined) continue;
      checkpoints.set(name, checkpoint);
      if (name === LOG_START_COPY_FILE && !checkpoint.checked)
        this.#faults.push({ file: name, what: 'it has no checksum' });
    }
    this.#checkpoints = checkpoints;
    this.#logStarts = await LogStarts.read(await anyFiles(), this.#dir, silentLogger);
    const folders = await this.#folders(names);
    for (const folder of folders) this.#total += await sizeOf(join(this.#dir, folder));
    const progress = new Progress(() => `${bytesText(this.#done)} of ${bytesText(this.#total)} checked`);
    const ticking = setInterval(() => progress.tick(), 200);
    try {
      // It knows the others' leader epochs.
      for (const folder of folders.sort(
        (a, b) => Number(b === METADATA_FOLDER) - Number(a === METADATA_FOLDER),
      )) {
        await this.#partition(folder, join(this.#dir, folder), `${folder}/`, clean);
        if (folder === METADATA_FOLDER) await this.#metadata();
        // Between files nothing else gives the timer its turn.
        progress.tick();
      }
    } finally {
      clearInterval(ticking);
      progress.clear();
    }
    this.#compare(clean);
  }

  /** Whose directory it is, twice. */
  async #properties(names: readonly string[]): Promise<void> {
    const found = await this.#parsed(META_PROPERTIES_FILE, (text) =>
      parseMetaProperties(text, META_PROPERTIES_FILE),
    );
    if (!names.includes(META_PROPERTIES_COPY_FILE)) return;
    const copy = await this.#parsed(META_PROPERTIES_COPY_FILE, (text) =>
      parseMetaPropertiesCopy(text, META_PROPERTIES_COPY_FILE),
    );
    if (found === undefined || copy === undefined) return;
    if (
      found.clusterId !== copy.clusterId ||
      found.nodeId !== copy.nodeId ||
      found.directoryId !== copy.directoryId
    )
      this.#faults.push({ file: META_PROPERTIES_FILE, what: `it differs from ${META_PROPERTIES_COPY_FILE}` });
  }

  /** Folders of partitions; others are remarked on. */
  async #folders(names: readonly string[]): Promise<string[]> {
    const found: string[] = [];
    for (const name of [...names].sort()) {
      if (!(await stat(join(this.#dir, name))).isDirectory()) continue;
      const suffix = suffixOf(name);
      if (suffix !== undefined)
        this.#remarks.push({ file: name, what: `is set aside (${suffix}), not checked` });
      else if (parsePartitionFolder(name) !== undefined) found.push(name);
      else {
        this.#faults.push({
          file: name,
          what: "is no partition's folder: Apache Kafka does not start with it here",
        });
      }
    }
    return found;
  }

  async #parsed<T>(name: string, parse: (text: string) => T): Promise<T | undefined> {
    try {
      return parse(await readFile(join(this.#dir, name), 'utf8'));
    } catch (error) {
      this.#faults.push({ file: name, what: (error as Error).message });
      return undefined;
    }
  }

  async #partition(name: string, folder: string, prefix: string, clean: boolean): Promise<void> {
    const report = await checkPartition(folder, {
      clean,
      deep: this.#options.deep,
      latestLeaderEpoch: await this.#latestLeaderEpoch(name, folder),
      onBytes: (bytes) => {
        this.#done += bytes;
      },
    });
    this.#partitions.set(name, report);
    const placed = ({ file, what }: Fault) => ({ file: `${prefix}${file}`, what });
    this.#faults.push(...report.faults.map(placed));
    this.#remarks.push(...report.remarks.map(placed));
  }

  async #latestLeaderEpoch(name: string, folder: string): Promise<number | undefined> {
    const files = await anyFiles();
    if (name === METADATA_FOLDER)
      return latestEpoch(await readQuorumState(files, folder, silentLogger), await readEpochs(files, folder));
    const topic = this.#image?.topicsById.get((await readTopicId(files, folder)) ?? '');
    const partition = parsePartitionFolder(name);
    return topic?.name === partition?.topic
      ? topic?.partitions.get(partition?.index ?? -1)?.leaderEpoch
      : undefined;
  }

  /** What only the metadata log has. */
  async #metadata(): Promise<void> {
    const folder = join(this.#dir, METADATA_FOLDER);
    const names = await readdir(folder);
    const end = `${METADATA_FOLDER}/${RECOVERY_POINT_FILE}`;
    if (names.includes(RECOVERY_POINT_FILE)) await this.#parsed(end, (text) => OffsetCheckpoint.parse(text));
    this.#metadataEnd = await readKnownEnd(await anyFiles(), folder, silentLogger);
    const state = `${METADATA_FOLDER}/quorum-state`;
    if (names.includes('quorum-state')) {
      await this.#parsed(state, (text) => parseQuorumState(text, state));
    } else this.#faults.push({ file: state, what: 'is missing' });
    for (const snapshot of snapshotNames(names)) {
      try {
        await readSnapshot(await anyFiles(), folder, snapshot);
      } catch (error) {
        this.#faults.push({ file: `${METADATA_FOLDER}/${snapshot.name}`, what: (error as Error).message });
      }
    }
    const report = this.#partitions.get(METADATA_FOLDER)!;
    if (report.faults.length > 0 || report.endOffset < this.#metadataEnd) return;
    const { image, unfit } = await replayClosed(await anyFiles(), folder);
    if (unfit.size === 0) this.#image = image;
  }

  #logStart(folder: string): LogStart | undefined {
    const partition = parsePartitionFolder(folder);
    const topicId = this.#partitions.get(folder)?.topicId;
    if (partition === undefined || topicId === undefined || folder === METADATA_FOLDER) return undefined;
    return this.#logStarts?.get(partition.topic, topicId, partition.index);
  }

  /** Where a log ended at least, by what is vouched for; 0 if nothing is. */
  #knownEnd(folder: string): number {
    if (folder === METADATA_FOLDER) return this.#metadataEnd;
    const parsed = parsePartitionFolder(folder);
    const topicId = this.#partitions.get(folder)?.topicId;
    if (parsed === undefined || topicId === undefined) return 0;
    const { topic, index } = parsed;
    const known = [
      this.#checkpoints.get(RECOVERY_POINT_FILE)?.of(topic, topicId, index),
      this.#logStart(folder),
    ];
    return Math.max(0, ...known.map((each) => (each?.checked === true ? each.offset : 0)));
  }

  /** Checkpoints against what the logs have. After a stop that was not clean others may lag. */
  #compare(clean: boolean): void {
    for (const [folder, { startOffset, endOffset, lastSegment }] of this.#partitions) {
      const start = this.#logStart(folder);
      const known = this.#knownEnd(folder);
      if (start?.exact === true && start.offset < (lastSegment === undefined ? known : startOffset)) {
        this.#faults.push({
          file: `${folder}/${segmentFileName(start.offset, '.log')}`,
          what: `is missing: the log is known to begin at ${start.offset}`,
        });
      }
      if (known <= endOffset || lastSegment === undefined) continue;
      this.#faults.push({
        file: `${folder}/${lastSegment}`,
        what: `the log ends at ${endOffset}, and it is known to have reached ${known}`,
      });
    }
    const seen = new Map<string, string>();
    for (const [folder, { topicId }] of this.#partitions) {
      const { topic } = parsePartitionFolder(folder)!;
      if (topicId === undefined) continue;
      const other = seen.get(topic);
      if (other !== undefined && other !== topicId) {
        this.#faults.push({
          file: `${folder}/partition.metadata`,
          what: `names topic ${topicId}, another partition of ${topic} names ${other}`,
        });
      }
      seen.set(topic, topicId);
    }
    if (!clean) return;
    for (const [file, checkpoint] of this.#checkpoints) {
      for (const { topic, partition, offset } of checkpoint.entries()) {
        const folder = partitionFolder(topic, partition);
        const report = this.#partitions.get(folder);
        if (report === undefined || offset <= report.endOffset || offset <= this.#knownEnd(folder)) continue;
        this.#faults.push({
          file,
          what: `${topic} ${partition} is at ${offset}, and its log ends at ${report.endOffset}`,
        });
      }
    }
  }

  /** Prints it all; throws CORRUPT where something is wrong. */
  async report(repaired: readonly Fault[]): Promise<void> {
    const reports = [...this.#partitions.values()];
    const sum = (of: (report: PartitionReport) => number) =>
      reports.reduce((total, each) => total + of(each), 0);
    const counts = {
      partitions: reports.length,
      segments: sum(({ segments }) => segments),
      batches: sum(({ batches }) => batches),
      bytes: sum(({ bytes }) => bytes),
    };
    const ok = this.#faults.length === 0;
    if (this.#options.json) {
      await printJson({
        dir: this.#dir,
        ok,
        ...counts,
        faults: this.#faults,
        remarks: this.#remarks,
        repaired,
      });
    } else {
      const lines = [
        ...repaired.map(({ file, what }) => `${file} (repair): ${what}\n`),
        ...this.#faults.map(({ file, what }) => `${file}: ${what}\n`),
        ...this.#remarks.map(({ file, what }) => `${file} (no damage): ${what}\n`),
        `${counted(counts.partitions, 'partition')}, ${counted(counts.segments, 'segment')}, ` +
          `${counts.batches} ${counts.batches === 1 ? 'batch' : 'batches'}, ` +
          `${bytesText(counts.bytes)}: ${ok ? 'all is well' : counted(this.#faults.length, 'fault')}\n`,
      ];
      await print(lines.join(''));
    }
    if (!ok) throw new BroadsheetError('CORRUPT', `${this.#dir} is damaged`);
  }
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) {
    if (name.endsWith('.log')) bytes += (await stat(join(folder, name))).size;
  }
  return bytes;
}

export function define(command: Command): void {
  command
    .argument('<dir>', "a data directory, or one partition's folder")
    .option('--deep', 'read the records too: unpack and count them')
    .option(
      '--repair',
      'take damage out into .quarantine files, offsets, ends and starts of logs stay; leave what can be made again to the next start: indexes, producer snapshots, leader epochs, recovery points',
    )
    .option('--json', 'print one JSON document')
    .action(check);
}
