/** What the records of Kafka's own topics mean: the metadata log, `__consumer_offsets`, `__transaction_state`,
 * `__share_group_state`, and control records anywhere. */
import { decodeMetadataRecord } from '../metadata/records.ts';
import * as control from '../protocol/generated/control.ts';
import * as groups from '../protocol/generated/group-coordinator.ts';
import * as shares from '../protocol/generated/share-coordinator.ts';
import * as transactions from '../protocol/generated/transaction-log.ts';
import { Reader } from '../protocol/reader.ts';
import type { RecordView } from '../protocol/records/batch.ts';
import { type ControlTypeName, controlTypeName } from '../protocol/records/control.ts';
import { BroadsheetError } from '../runtime/errors.ts';

export interface DecodedRecord {
  readonly type: string;
  readonly version: number | null;
  /** What the record is about; null where its value says all. */
  readonly key: unknown;
  /** Null takes back what the key names. */
  readonly value: unknown;
}

/** Throws CORRUPT, MALFORMED for a record that is none of its topic. */
export type RecordDecoder = (record: RecordView) => DecodedRecord;

type Read = (reader: Reader, version: number) => unknown;

export const DECODERS = {
  metadata: ({ value }) => {
    const { type, version, data } = decodeMetadataRecord(value ?? new Uint8Array());
    return { type, version, key: null, value: data };
  },
  offsets: coordinatorRecords(groups.RecordId, groups as unknown as Record<string, Read>),
  transactions: coordinatorRecords(transactions.RecordId, transactions as unknown as Record<string, Read>),
  shares: coordinatorRecords(shares.RecordId, shares as unknown as Record<string, Read>),
} as const satisfies Record<string, RecordDecoder>;
export type DecoderName = keyof typeof DECODERS;

const TOPICS: ReadonlyMap<string, DecoderName> = new Map([
  ['__cluster_metadata', 'metadata'],
  ['__consumer_offsets', 'offsets'],
  ['__transaction_state', 'transactions'],
  ['__share_group_state', 'shares'],
]);

/** The decoder for a topic's records; undefined for a topic of users. */
export function decoderOf(topic: string): RecordDecoder | undefined {
  const name = TOPICS.get(topic);
  return name === undefined ? undefined : DECODERS[name];
}

/** Keys begin with an int16 that says what the record is, values with an int16 version; the bodies are by schema. */
function coordinatorRecords(
  ids: Readonly<Record<string, number>>,
  schemas: Readonly<Record<string, Read>>,
): RecordDecoder {
  const names = new Map(Object.entries(ids).map(([name, id]) => [id, name]));
  return ({ key, value }) => {
    if (key === null) throw new BroadsheetError('CORRUPT', 'a record without a key');
    const reader = new Reader(key);
    const id = reader.int16();
    const name = names.get(id);
    if (name === undefined) throw new BroadsheetError('CORRUPT', `a record of unknown type ${id}`);
    const readKey = schemas[`read${name}Key`]!;
    const readValue = schemas[`read${name}Value`]!;
    const about = readKey(reader, 0);
    if (value === null) return { type: name, version: null, key: about, value: null };
    const body = new Reader(value);
    const version = body.int16();
    return { type: name, version, key: about, value: readValue(body, version) };
  };
}

const CONTROL: Readonly<Partial<Record<ControlTypeName, Read>>> = {
  LEADER_CHANGE: control.readLeaderChangeMessage,
  SNAPSHOT_HEADER: control.readSnapshotHeaderRecord,
  SNAPSHOT_FOOTER: control.readSnapshotFooterRecord,
  KRAFT_VERSION: control.readKRaftVersionRecord,
  KRAFT_VOTERS: control.readVotersRecord,
};

/** A record of a control batch. Throws MALFORMED. */
export function decodeControl(record: RecordView): DecodedRecord {
  const type = controlTypeName(record);
  if (type === undefined) throw new BroadsheetError('CORRUPT', 'a control record of unknown type');
  const reader = new Reader(record.value ?? new Uint8Array());
  // Both begin with their version; only of markers is it no field of the body.
  const version = reader.int16();
  if (type === 'ABORT' || type === 'COMMIT') {
    return { type, version, key: null, value: control.readEndTxnMarker(reader, version) };
  }
  reader.position -= 2;
  const read = CONTROL[type]!;
  return {
    type,
    version,
    key: null,
    value: read(reader, Math.min(version, type === 'LEADER_CHANGE' ? 1 : 0)),
  };
}

/** The same with bytes as base64, for JSON. */
export function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
  }
  return value;
}
