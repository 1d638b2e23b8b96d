/** Snapshots of the metadata log, as Kafka writes them: `<end offset>-<epoch>.checkpoint`, a control batch that begins it,
 * data batches, a control batch that ends it. Offsets in it count from 0. */
import type { Files } from '../log/log.ts';
import {
  readSnapshotHeaderRecord,
  writeSnapshotFooterRecord,
  writeSnapshotHeaderRecord,
} from '../protocol/generated/control.ts';
import { Reader } from '../protocol/reader.ts';
import { ControlType } from '../protocol/records/control.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type JournalRecord, recordBatches } from './journal.ts';
import type { SnapshotName } from './kraft-files.ts';
import { control, controlTypeOf } from './quorum.ts';
import {
  decodeMetadataRecord,
  encodeMetadataRecord,
  type MetadataRecord,
  type MetadataRecordInput,
} from './records.ts';

/** Largest snapshot that is read, bytes. */
const MAX_SNAPSHOT_BYTES = 1024 * 1024 * 1024;
/** Bounds of a batch: Kafka reads none above 8 MiB. */
const RECORDS_PER_BATCH = 1024;
const BATCH_BYTES = 512 * 1024;
const VALUE_VERSION = 0;

export interface Snapshot extends SnapshotName {
  readonly control: readonly JournalRecord[];
  readonly records: readonly MetadataRecord[];
  /** Of the last batch of the log that is in it, ms since the epoch. */
  readonly lastTimestamp: number;
}

/** Reads a whole snapshot. Throws CORRUPT if it is damaged or does not end. */
export async function readSnapshot(files: Files, folder: string, name: SnapshotName): Promise<Snapshot> {
  const path = `${folder}/${name.name}`;
  const bytes = await files.read(path, MAX_SNAPSHOT_BYTES);
  const control: JournalRecord[] = [];
  const records: MetadataRecord[] = [];
  return corruptAt(path, () => {
    for (const batch of recordBatches(bytes)) {
      for (const record of batch.records()) {
        if (batch.isControl) control.push({ key: record.key, value: record.value });
        else records.push(decodeMetadataRecord(record.value ?? new Uint8Array()));
      }
    }
    const types = control.map(({ key }) => controlTypeOf(key));
    if (types[0] !== ControlType.SNAPSHOT_HEADER || types.at(-1) !== ControlType.SNAPSHOT_FOOTER) {
      throw new BroadsheetError('CORRUPT', 'its header or its footer is missing');
    }
    return { ...name, control, records, lastTimestamp: timestampOf(control[0]) };
  });
}

/** The timestamp in the header of a snapshot, ms since the epoch. Throws CORRUPT if that cannot be read. */
export async function readLastTimestamp(files: Files, folder: string, name: SnapshotName): Promise<number> {
  const path = `${folder}/${name.name}`;
  const bytes = await files.read(path, MAX_SNAPSHOT_BYTES);
  return corruptAt(path, () => {
    const [first] = recordBatches(bytes);
    const [header] = first?.isControl ? first.records() : [];
    return timestampOf(header);
  });
}

function timestampOf(header: JournalRecord | undefined): number {
  if (header === undefined || controlTypeOf(header.key) !== ControlType.SNAPSHOT_HEADER) {
    throw new BroadsheetError('CORRUPT', 'its header is missing');
  }
  const reader = new Reader(header.value ?? undefined);
  return readSnapshotHeaderRecord(reader, VALUE_VERSION).lastContainedLogTimestamp;
}

function corruptAt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    throw new BroadsheetError('CORRUPT', `${path}: ${error.message}`, 0, { cause: error });
  }
}

export interface SnapshotFacts {
  readonly epoch: number;
  /** Of the last batch of the log that is in it, ms since the epoch. */
  readonly lastTimestamp: number;
  /** Control records besides header and footer: kraft.version and voters. */
  readonly control: readonly JournalRecord[];
  /** ms since the epoch. */
  readonly now: number;
}

/** The bytes of a snapshot, a batch at a time: whoever takes them may do other things between two. */
export function* snapshotBatches(
  records: Iterable<MetadataRecordInput>,
  { epoch, lastTimestamp, control: more, now }: SnapshotFacts,
): Generator<Uint8Array> {
  let offset = 0;
  const batch = (values: readonly JournalRecord[], isControl: boolean) => {
    const builder = new BatchBuilder({ control: isControl, baseOffset: offset, leaderEpoch: epoch });
    for (const { key, value } of values) builder.append({ timestamp: now, key, value });
    offset += values.length;
    return builder.build();
  };
  const header = control(ControlType.SNAPSHOT_HEADER, (writer) =>
    writeSnapshotHeaderRecord(writer, VALUE_VERSION, {
      version: VALUE_VERSION,
      lastContainedLogTimestamp: lastTimestamp,
    }),
  );
  yield batch([header, ...more], true);
  const writer = new Writer();
  let values: JournalRecord[] = [];
  let bytes = 0;
  for (const record of records) {
    writer.reset();
    encodeMetadataRecord(writer, record);
    const value = Buffer.from(writer.bytes());
    if (values.length === RECORDS_PER_BATCH || (bytes > 0 && bytes + value.length > BATCH_BYTES)) {
      yield batch(values, false);
      values = [];
      bytes = 0;
    }
    values.push({ key: null, value });
    bytes += value.length;
  }
  if (values.length > 0) yield batch(values, false);
  const footer = control(ControlType.SNAPSHOT_FOOTER, (writer) =>
    writeSnapshotFooterRecord(writer, VALUE_VERSION, { version: VALUE_VERSION }),
  );
  yield batch([footer], true);
}

export interface LoadedSnapshot {
  /** The newest one that can be read. */
  readonly snapshot: Snapshot | undefined;
  /** Newer ones that cannot. */
  readonly damaged: readonly { readonly name: SnapshotName; readonly fault: BroadsheetError }[];
}

/** Reads the newest of snapshots (newest first), or an older one where that is damaged. */
export async function loadNewest(
  files: Files,
  folder: string,
  names: readonly SnapshotName[],
): Promise<LoadedSnapshot> {
  const damaged: { name: SnapshotName; fault: BroadsheetError }[] = [];
  for (const name of names) {
    try {
      return { snapshot: await readSnapshot(files, folder, name), damaged };
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code !== 'CORRUPT') throw error;
      damaged.push({ name, fault: error });
    }
  }
  return { snapshot: undefined, damaged };
}
