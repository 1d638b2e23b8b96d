/** `broadsheet dump`: what is in a file of a data directory. It reads the file itself, and asks no broker. */
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { OffsetCheckpoint, PARTITION_METADATA_FILE } from '../log/checkpoints.ts';
import { parseOffsetIndex, parseTimeIndex, parseTransactionIndex } from '../log/index-file.ts';
import { LeaderEpochs } from '../log/leader-epochs.ts';
import { parsePartitionFolder } from '../log/partition-names.ts';
import { decodeSnapshot } from '../log/producer-snapshot.ts';
import { fileError, type PlacedBatch, SegmentFile } from '../log/segment-file.ts';
import type { RecordView } from '../protocol/records/batch.ts';
import { LegacyBatch } from '../protocol/records/legacy.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { positive } from './arguments.ts';
import { counted, endWithReader, print, printJson, table } from './output.ts';
import {
  DECODERS,
  type DecodedRecord,
  type DecoderName,
  decodeControl,
  decoderOf,
  plain,
  type RecordDecoder,
} from './record-decoders.ts';
import { bytesField } from './record-output.ts';

interface DumpOptions {
  readonly deep?: boolean;
  readonly json?: boolean;
  readonly count?: number;
  readonly as?: DecoderName | 'plain';
}

/** Of the small files. */
const MOST_BYTES = 256 * 1024 * 1024;

async function dump(files: readonly string[], options: DumpOptions): Promise<void> {
  endWithReader();
  let damaged = 0;
  for (const [index, file] of files.entries()) {
    if (files.length > 1 && !options.json) await print(`${index === 0 ? '' : '\n'}${file}\n`);
    try {
      damaged += await dumpFile(resolve(file), options);
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code === 'NOT_FOUND') throw error;
      throw new BroadsheetError(error.code, `${file}: ${error.message}`);
    }
  }
  if (damaged > 0) throw new BroadsheetError('CORRUPT', `${counted(damaged, 'fault')} found`);
}

/** Returns how many faults it found. */
async function dumpFile(path: string, options: DumpOptions): Promise<number> {
  const name = basename(path);
  if (/\.log$|\.checkpoint$|\.log\.(deleted|swap|cleaned)$/.test(name)) return dumpBatches(path, options);
  const baseOffset = Number(/^(\d{20})\./.exec(name)?.[1] ?? 0);
  const read = await bytesOf(path);
  const cut = <T>(rows: readonly T[]) => rows.slice(0, options.count);
  if (/\.index(\.deleted)?$/.test(name)) {
    const entries = cut(parseOffsetIndex(read, baseOffset));
    await show(
      options,
      { kind: 'offset index', baseOffset, entries },
      ['OFFSET', 'POSITION'],
      entries,
      (each) => [each.offset, each.position],
    );
  } else if (/\.timeindex(\.deleted)?$/.test(name)) {
    const entries = cut(parseTimeIndex(read, baseOffset));
    const heading = ['TIMESTAMP', 'TIME', 'OFFSET'];
    await show(options, { kind: 'time index', baseOffset, entries }, heading, entries, (each) => [
      each.timestamp,
      timeText(each.timestamp),
      each.offset,
    ]);
  } else if (/\.txnindex(\.deleted)?$/.test(name)) {
    const entries = cut(parseTransactionIndex(read));
    const heading = ['PRODUCER', 'FIRST OFFSET', 'LAST OFFSET', 'LAST STABLE'];
    await show(options, { kind: 'transaction index', entries }, heading, entries, (each) => [
      each.producerId,
      each.firstOffset,
      each.lastOffset,
      each.lastStableOffset,
    ]);
  } else if (/\.snapshot(\.deleted)?$/.test(name)) {
    const entries = cut(decodeSnapshot(read)).map(({ batches, ...each }) => ({
      producerId: each.producerId,
      epoch: each.epoch,
      lastSequence: batches.at(-1)?.lastSequence ?? -1,
      lastOffset: batches.at(-1)?.lastOffset ?? -1,
      offsetDelta: batches.at(-1)?.offsetDelta ?? 0,
      timestamp: each.lastTimestamp,
      coordinatorEpoch: each.coordinatorEpoch,
      transactionFirstOffset: each.currentTxnFirstOffset < 0 ? null : each.currentTxnFirstOffset,
    }));
    const heading = [
      'PRODUCER',
      'EPOCH',
      'SEQUENCE',
      'OFFSET',
      'TIME',
      'COORDINATOR EPOCH',
      'TRANSACTION FROM',
    ];
    await show(
      options,
      { kind: 'producer snapshot', offset: baseOffset, entries },
      heading,
      entries,
      (each) => [
        each.producerId,
        each.epoch,
        each.lastSequence,
        each.lastOffset,
        timeText(each.timestamp),
        each.coordinatorEpoch,
        each.transactionFirstOffset,
      ],
    );
  } else if (name === 'leader-epoch-checkpoint') {
    const { entries } = LeaderEpochs.parse(read.toString('latin1'));
    await show(
      options,
      { kind: 'leader epochs', entries: cut(entries) },
      ['EPOCH', 'START'],
      cut(entries),
      (each) => [each.epoch, each.startOffset],
    );
  } else if (/-offset-checkpoint$/.test(name)) {
    const entries = cut([...OffsetCheckpoint.parse(read.toString('latin1')).entries()]);
    const heading = ['TOPIC', 'PARTITION', 'OFFSET'];
    await show(options, { kind: 'offset checkpoint', entries }, heading, entries, (each) => [
      each.topic,
      each.partition,
      each.offset,
    ]);
  } else if (
    [PARTITION_METADATA_FILE, 'meta.properties', 'quorum-state', '.kafka_cleanshutdown'].includes(name)
  ) {
    const text = read.toString();
    if (options.json) await printJson({ kind: name, text });
    else await print(text.endsWith('\n') ? text : `${text}\n`);
  } else {
    throw new BroadsheetError(
      'INVALID_ARGUMENT',
      'no file of a data directory by its name: .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, ' +
        'leader-epoch-checkpoint, ...-offset-checkpoint, partition.metadata, meta.properties or quorum-state',
    );
  }
  return 0;
}

async function bytesOf(path: string): Promise<Buffer> {
  try {
    const { size } = await stat(path);
    if (size > MOST_BYTES) throw new BroadsheetError('LIMIT', `${size} bytes are too many for such a file`);
    return await readFile(path);
  } catch (error) {
    throw error instanceof BroadsheetError ? error : fileError(path, error);
  }
}

async function show<T>(
  options: DumpOptions,
  document: object,
  heading: readonly string[],
  entries: readonly T[],
  row: (entry: T) => readonly (string | number | null)[],
): Promise<void> {
  if (options.json) return printJson(document);
  await print(table(heading, entries.map(row)));
}

function timeText(timestamp: number): string | null {
  return timestamp < 0 || timestamp > 8.64e15 ? null : new Date(timestamp).toISOString();
}

async function dumpBatches(path: string, options: DumpOptions): Promise<number> {
  const topic = parsePartitionFolder(basename(dirname(path)))?.topic ?? '';
  const decode =
    options.as === undefined ? decoderOf(topic) : options.as === 'plain' ? undefined : DECODERS[options.as];
  const file = await SegmentFile.open(path);
  let faults = 0;
  let left = options.count ?? Number.POSITIVE_INFINITY;
  try {
    for await (const placed of file.batches()) {
      const lines: string[] = [];
      for (const each of placed) {
        if (left-- <= 0) break;
        const fault = batchLines(each, options, decode, lines);
        if (fault) faults++;
      }
      if (lines.length > 0) await print(lines.join(''));
      if (left <= 0) return faults;
    }
    if (file.fault !== undefined) {
      faults++;
      const line = { kind: 'fault', position: file.end, error: file.fault };
      await print(options.json ? `${JSON.stringify(line)}\n` : `position ${file.end}: ${file.fault}\n`);
    }
  } finally {
    await file.close();
  }
  return faults;
}

/** Appends the lines of a batch and, with `deep`, of its records; whether something is wrong with it. */
function batchLines(
  { position, batch }: PlacedBatch,
  options: DumpOptions,
  decode: RecordDecoder | undefined,
  lines: string[],
): boolean {
  let error: string | null = null;
  try {
    batch.ensureValid();
  } catch (thrown) {
    error = (thrown as Error).message;
  }
  const facts = batchFacts(batch);
  lines.push(
    options.json
      ? `${JSON.stringify({ kind: 'batch', position, ...facts, error })}\n`
      : `${batchText(position, facts, error)}\n`,
  );
  if (!options.deep || error !== null) return error !== null;
  const isControl = batch instanceof LegacyBatch === false && batch.isControl;
  try {
    for (const record of batch.records())
      lines.push(recordLine(record, options, isControl ? decodeControl : decode));
  } catch (thrown) {
    if (!(thrown instanceof BroadsheetError)) throw thrown;
    const text = thrown.message;
    lines.push(
      options.json ? `${JSON.stringify({ kind: 'fault', position, error: text })}\n` : `  ${text}\n`,
    );
    return true;
  }
  return false;
}

function batchFacts(batch: PlacedBatch['batch']) {
  if (batch instanceof LegacyBatch) {
    return {
      magic: batch.magic,
      baseOffset: batch.offset,
      lastOffset: batch.offset,
      sizeInBytes: batch.sizeInBytes,
      compression: batch.compression,
      maxTimestamp: batch.timestamp,
    };
  }
  return {
    magic: batch.magic,
    baseOffset: batch.baseOffset,
    lastOffset: batch.lastOffset,
    recordCount: batch.recordCount,
    sizeInBytes: batch.sizeInBytes,
    crc: batch.crc,
    compression: compressionOf(batch),
    timestampType: batch.timestampType,
    baseTimestamp: batch.baseTimestamp,
    maxTimestamp: batch.maxTimestamp,
    leaderEpoch: batch.leaderEpoch,
    producerId: batch.producerId,
    producerEpoch: batch.producerEpoch,
    baseSequence: batch.baseSequence,
    lastSequence: batch.lastSequence,
    transactional: batch.isTransactional,
    control: batch.isControl,
    deleteHorizon: batch.deleteHorizon ?? null,
  };
}

/** A damaged batch may name a codec that there is not. */
function compressionOf(batch: { readonly compression: string; readonly attributes: number }): string {
  try {
    return batch.compression;
  } catch {
    return `codec ${batch.attributes & 7}`;
  }
}

function batchText(position: number, facts: ReturnType<typeof batchFacts>, error: string | null): string {
  const parts = [
    `position ${position}`,
    `offsets ${facts.baseOffset}..${facts.lastOffset}`,
    ...(facts.recordCount === undefined ? [`magic ${facts.magic}`] : [`records ${facts.recordCount}`]),
    `bytes ${facts.sizeInBytes}`,
    `codec ${facts.compression}`,
    `time ${timeText(facts.maxTimestamp) ?? facts.maxTimestamp}`,
  ];
  if (facts.timestampType === 'LogAppendTime') parts.push('log append time');
  if (facts.leaderEpoch !== undefined) parts.push(`epoch ${facts.leaderEpoch}`);
  if (facts.producerId !== undefined && facts.producerId >= 0) {
    parts.push(
      `producer ${facts.producerId}/${facts.producerEpoch} sequence ${facts.baseSequence}..${facts.lastSequence}`,
    );
  }
  if (facts.transactional) parts.push('transactional');
  if (facts.control) parts.push('control');
  if (facts.deleteHorizon !== undefined && facts.deleteHorizon !== null) {
    parts.push(`delete horizon ${timeText(facts.deleteHorizon)}`);
  }
  if (error !== null) parts.push(`DAMAGED: ${error}`);
  return parts.join('  ');
}

function recordLine(record: RecordView, options: DumpOptions, decode: RecordDecoder | undefined): string {
  const decoded = decode === undefined ? undefined : decodedOr(record, decode);
  if (options.json) {
    const line = {
      kind: 'record',
      offset: record.offset,
      timestamp: record.timestamp,
      ...(decoded === undefined
        ? { ...bytesField('key', record.key), ...bytesField('value', record.value) }
        : {
            type: decoded.type,
            version: decoded.version,
            key: plain(decoded.key),
            value: plain(decoded.value),
          }),
      headers: record.headers.map(({ key, value }) => ({ key, ...bytesField('value', value) })),
    };
    return `${JSON.stringify(line)}\n`;
  }
  const parts = [`  offset ${record.offset}`, `time ${timeText(record.timestamp) ?? record.timestamp}`];
  for (const { key, value } of record.headers) parts.push(`header ${JSON.stringify(key)}=${text(value)}`);
  if (decoded === undefined) parts.push(`key ${text(record.key)}`, `value ${text(record.value)}`);
  else {
    parts.push(decoded.version === null ? decoded.type : `${decoded.type} v${decoded.version}`);
    if (decoded.key !== null) parts.push(JSON.stringify(plain(decoded.key)));
    parts.push(JSON.stringify(plain(decoded.value)));
  }
  return `${parts.join('  ')}\n`;
}

/** A record that is none of its topic's is shown as it is, and the others after it as well. */
function decodedOr(record: RecordView, decode: RecordDecoder): DecodedRecord | undefined {
  try {
    return decode(record);
  } catch (error) {
    if (error instanceof BroadsheetError) return undefined;
    throw error;
  }
}

/** Text in quotes, other bytes in hex. */
function text(bytes: Uint8Array | null): string {
  if (bytes === null) return 'null';
  const [[name, value]] = Object.entries(bytesField('bytes', bytes)) as [[string, string | null]];
  return name === 'bytes' ? JSON.stringify(value) : `0x${Buffer.from(bytes).toString('hex')}`;
}

export function define(command: Command): void {
  command
    .argument('<file...>', 'segment, index, snapshot or checkpoint of a data directory')
    .option('--deep', "with the records; those of Kafka's own topics are decoded")
    .option('-n, --count <n>', 'only so many batches or entries', positive)
    .addOption(
      new Option('--as <kind>', 'how to decode records; default: by the name of the folder').choices([
        ...Object.keys(DECODERS),
        'plain',
      ]),
    )
    .option('--json', 'print JSON: a line per batch and record of a segment, one document for other files')
    .action(dump);
}
