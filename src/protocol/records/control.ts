/** Control batches: records that brokers write for each other, with a key that says what the value is. No client may
 * produce them, and consumers skip them. */
import type { RecordView } from './batch.ts';
import { BatchBuilder } from './writer.ts';

/** Types of control records, as in their keys. */
export const ControlType = {
  ABORT: 0,
  COMMIT: 1,
  LEADER_CHANGE: 2,
  SNAPSHOT_HEADER: 3,
  SNAPSHOT_FOOTER: 4,
  KRAFT_VERSION: 5,
  KRAFT_VOTERS: 6,
} as const;
export type ControlType = (typeof ControlType)[keyof typeof ControlType];
export type ControlTypeName = keyof typeof ControlType;

const KEY_VERSION = 0;
const KEY_BYTES = 4;
const MARKER_VERSION = 0;

export interface ControlOptions {
  /** ms since the epoch. */
  readonly timestamp: number;
  readonly baseOffset?: number;
  readonly leaderEpoch?: number;
}

/** One control batch of the given records; each value is the encoded body (records/control.json). */
export function controlBatch(
  records: readonly { readonly type: ControlType; readonly value: Uint8Array }[],
  options: ControlOptions,
): Uint8Array {
  const builder = new BatchBuilder({ ...options, control: true });
  for (const { type, value } of records) {
    builder.append({ timestamp: options.timestamp, key: controlKey(type), value });
  }
  return builder.build();
}

/** The marker that ends a producer's transaction in one partition. */
export function endTransactionMarker(
  type: typeof ControlType.ABORT | typeof ControlType.COMMIT,
  producerId: number,
  producerEpoch: number,
  coordinatorEpoch: number,
  options: ControlOptions,
): Uint8Array {
  const value = Buffer.alloc(6);
  value.writeInt16BE(MARKER_VERSION, 0);
  value.writeInt32BE(coordinatorEpoch, 2);
  return new BatchBuilder({ ...options, producerId, producerEpoch, transactional: true, control: true })
    .append({ timestamp: options.timestamp, key: controlKey(type), value })
    .build();
}

/** The name of the type in a control record's key, or undefined if the key is none or of no type known here. */
export function controlTypeName(record: Pick<RecordView, 'key'>): ControlTypeName | undefined {
  const { key } = record;
  if (key === null || key.length < KEY_BYTES) return undefined;
  const type = new DataView(key.buffer, key.byteOffset, KEY_BYTES).getInt16(2);
  return (Object.keys(ControlType) as ControlTypeName[]).find((name) => ControlType[name] === type);
}

function controlKey(type: ControlType): Uint8Array {
  const key = Buffer.alloc(KEY_BYTES);
  key.writeInt16BE(KEY_VERSION, 0);
  key.writeInt16BE(type, 2);
  return key;
}
