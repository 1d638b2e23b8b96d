/**
 * The small text files of a data directory, in Kafka's formats: the offset checkpoints at its root,
 * `.kafka_cleanshutdown` and `partition.metadata`. A checkpoint that does not parse is worth a warning and a rebuild,
 * never a failed start. Writing is atomic.
 *
 * An offset checkpoint that we write ends with lines of the ids of its topics and of its checksum, which Apache Kafka takes for the
 * offsets of partitions that it does not have, and leaves out when it writes the file.
 */
import { crc32c } from '../protocol/crc32c.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Files } from './log.ts';

export const RECOVERY_POINT_FILE = 'recovery-point-offset-checkpoint';
export const LOG_START_FILE = 'log-start-offset-checkpoint';
export const HIGH_WATERMARK_FILE = 'replication-offset-checkpoint';
export const CLEANER_FILE = 'cleaner-offset-checkpoint';
export const CLEAN_SHUTDOWN_FILE = '.kafka_cleanshutdown';
export const PARTITION_METADATA_FILE = 'partition.metadata';
export const LEADER_EPOCH_FILE = 'leader-epoch-checkpoint';

const VERSION = '0';

export function formatCheckpoint(lines: readonly string[]): string {
  return `${VERSION}\n${lines.length}\n${lines.map((line) => `${line}\n`).join('')}`;
}

function parseInteger(text: string, what: string): number {
  const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value))
    throw new BroadsheetError('CORRUPT', `${what} is no number: ${JSON.stringify(text)}`);
  return value;
}

/** Lines of the checkpoint, each with the given number of integer fields. An empty file has none. Throws CORRUPT. */
export function parseCheckpoint(text: string, fields: number): number[][] {
  return checkpointLines(text).map((line) => {
    const parts = line.trim().split(/\s+/);
    if (parts.length !== fields) throw new BroadsheetError('CORRUPT', `bad line ${JSON.stringify(line)}`);
    return parts.map((part) => {
      const value = parseInteger(part, 'field');
      if (value < 0) throw new BroadsheetError('CORRUPT', `negative field in ${JSON.stringify(line)}`);
      return value;
    });
  });
}

function checkpointLines(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.pop() !== '') throw new BroadsheetError('CORRUPT', 'the last line is not complete');
  const version = lines.shift();
  if (version?.trim() !== VERSION)
    throw new BroadsheetError('CORRUPT', `unknown version ${JSON.stringify(version)}`);
  const count = parseInteger((lines.shift() ?? '').trim(), 'number of lines');
  if (count !== lines.length)
    throw new BroadsheetError('CORRUPT', `${count} lines announced, ${lines.length} found`);
  return lines;
}

/** The name before a checksum: no topic's. */
const CHECKSUM = '#crc32c';

function checksumLine(lines: readonly string[]): string {
  return `${CHECKSUM} 0 ${crc32c(Buffer.from(lines.join('\n'), 'latin1'))}`;
}

export interface CheckedOffset {
  readonly offset: number;
  /** Whether a checksum vouches for it, and for the topic that it is of: then it is ours, and true. */
  readonly checked: boolean;
}

/** Offsets by topic and partition. */
export class OffsetCheckpoint {
  readonly #offsets = new Map<string, number>();
  /** Of topics, by name: a later topic may have the same one. */
  readonly #topicIds = new Map<string, string>();
  /** Whether the text that was read had a checksum: if not, Apache Kafka wrote it, and an altered offset goes unnoticed. */
  checked = false;

  static #key(topic: string, partition: number): string {
    return `${topic} ${partition}`;
  }

  get size(): number {
    return this.#offsets.size;
  }

  get(topic: string, partition: number): number | undefined {
    return this.#offsets.get(OffsetCheckpoint.#key(topic, partition));
  }

  /** What is known of a partition of the topic with this id: 0 where the offset is another topic's. */
  of(topic: string, topicId: string, partition: number): CheckedOffset {
    const offset = this.get(topic, partition);
    const id = this.#topicIds.get(topic);
    if (offset === undefined || (id !== undefined && id !== topicId)) return { offset: 0, checked: false };
    return { offset, checked: this.checked && id !== undefined };
  }

  set(topic: string, partition: number, offset: number, topicId?: string): void {
    this.#offsets.set(OffsetCheckpoint.#key(topic, partition), offset);
    if (topicId !== undefined) this.#topicIds.set(topic, topicId);
  }

  *entries(): Generator<{ readonly topic: string; readonly partition: number; readonly offset: number }> {
    for (const [key, offset] of this.#offsets) {
      const [topic, partition] = key.split(' ') as [string, string];
      yield { topic, partition: Number(partition), offset };
    }
  }

  /** Throws CORRUPT. */
  static parse(text: string): OffsetCheckpoint {
    const checkpoint = new OffsetCheckpoint();
    const lines = checkpointLines(text);
    if (lines.at(-1)?.startsWith(CHECKSUM)) {
      const line = lines.pop();
      if (line !== checksumLine(lines)) throw new BroadsheetError('CORRUPT', 'the checksum does not match');
      checkpoint.checked = true;
    }
    for (const line of lines) checkpoint.#take(line);
    return checkpoint;
  }

  /** The lines that parse of a text that does not; nothing vouches for them. */
  static salvage(text: string): OffsetCheckpoint {
    const checkpoint = new OffsetCheckpoint();
    for (const line of text.split('\n')) {
      try {
        checkpoint.#take(line);
      } catch (error) {
        if (!(error instanceof BroadsheetError)) throw error;
      }
    }
    return checkpoint;
  }

  #take(line: string): void {
    const match = /^([a-zA-Z0-9._-]{1,249})(?:#([A-Za-z0-9_-]{22}))? (\d{1,10}) (\d{1,16})$/.exec(
      line.trim(),
    );
    if (match === null) throw new BroadsheetError('CORRUPT', `bad line ${JSON.stringify(line)}`);
    const [, topic, topicId, partition, offset] = match as unknown as [
      string,
      string,
      string | undefined,
      string,
      string,
    ];
    if (topicId !== undefined) this.#topicIds.set(topic, topicId);
    else this.set(topic, parseInteger(partition, 'partition'), parseInteger(offset, 'offset'));
  }

  text(): string {
    const lines = [...this.#offsets].map(([key, offset]) => `${key} ${offset}`);
    for (const [topic, id] of this.#topicIds) lines.push(`${topic}#${id} 0 0`);
    return formatCheckpoint([...lines, checksumLine(lines)]);
  }
}

/** The checkpoint at a path; an empty one, with a warning, if it does not parse. A missing one is empty. */
export async function readOffsetCheckpoint(
  files: Files,
  path: string,
  logger: Logger,
): Promise<OffsetCheckpoint> {
  let text: string;
  try {
    text = (await files.read(path)).toString('latin1');
  } catch (error) {
    if ((error as BroadsheetError).code === 'NOT_FOUND') return new OffsetCheckpoint();
    throw error;
  }
  try {
    return OffsetCheckpoint.parse(text);
  } catch (error) {
    logger.warn({ path, reason: (error as Error).message }, 'checkpoint is corrupt and is rebuilt');
    return new OffsetCheckpoint();
  }
}

/** The broker epoch that the last clean stop noted (-1 if it can't be read), or undefined after an unclean one. */
export async function readCleanShutdown(files: Files, dataDir: string): Promise<number | undefined> {
  try {
    const text = (await files.read(`${dataDir}/${CLEAN_SHUTDOWN_FILE}`, 4096)).toString('utf8');
    const parsed = JSON.parse(text) as { brokerEpoch?: unknown } | null;
    const epoch = parsed?.brokerEpoch;
    return typeof epoch === 'number' && Number.isSafeInteger(epoch) ? epoch : -1;
  } catch (error) {
    if (error instanceof SyntaxError) return -1;
    if ((error as BroadsheetError).code === 'NOT_FOUND') return undefined;
    if ((error as BroadsheetError).code === 'LIMIT') return -1;
    throw error;
  }
}

export function cleanShutdownText(brokerEpoch: number): string {
  return `{"version":0,"brokerEpoch":${brokerEpoch}}`;
}

export function partitionMetadataText(topicId: string): string {
  return `version: 0\ntopic_id: ${topicId}`;
}

/** The topic id in a `partition.metadata`. Throws CORRUPT; `path` is what the error names. */
export function parsePartitionMetadata(text: string, path = PARTITION_METADATA_FILE): string {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.set(line.slice(0, colon).trim(), line.slice(colon + 1).trim());
  }
  const id = fields.get('topic_id');
  if (fields.get('version') !== '0' || id === undefined || !/^[A-Za-z0-9_-]{22}$/.test(id)) {
    throw new BroadsheetError('CORRUPT', `${path} has no version 0 and topic id`);
  }
  return id;
}
