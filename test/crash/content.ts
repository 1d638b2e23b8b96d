/** Records that say who sent them: their stream, their number in it, and filler that follows from both. */
import type { RecordView } from '../../src/protocol/records/batch.ts';
import type { NewRecord } from '../../src/protocol/records/writer.ts';
import { Random } from '../support/random.ts';

/** Recent: producers whose records are a day old are forgotten. */
const BEGINNING = Date.now();

const POOL = (() => {
  const random = new Random(4711);
  return Buffer.from(Array.from({ length: 1 << 16 }, () => random.int(256)));
})();

export function fillerOf(stream: string, sequence: number): Buffer {
  let hash = sequence * 2654435761;
  for (let i = 0; i < stream.length; i++) hash = Math.imul(hash ^ stream.charCodeAt(i), 16777619);
  const start = (hash >>> 0) % (POOL.length / 2);
  return POOL.subarray(start, start + ((hash >>> 8) % 1200));
}

export function recordOf(stream: string, sequence: number): NewRecord {
  const key = `${stream}#${sequence}`;
  return {
    timestamp: BEGINNING + sequence,
    key,
    value: fillerOf(stream, sequence),
    headers: [{ key: 'sequence', value: String(sequence) }],
  };
}

/** Who sent a record, or undefined when it is not just as it was sent. */
export function senderOf(record: RecordView): { stream: string; sequence: number } | undefined {
  const match = /^(.+)#(\d+)$/.exec(Buffer.from(record.key ?? []).toString());
  if (match === null) return undefined;
  const [, stream, digits] = match as unknown as [string, string, string];
  const sequence = Number(digits);
  const { timestamp, value } = recordOf(stream, sequence);
  const header = record.headers[0];
  const whole =
    record.timestamp === timestamp &&
    record.value !== null &&
    Buffer.compare(record.value, value as Buffer) === 0 &&
    record.headers.length === 1 &&
    header?.key === 'sequence' &&
    Buffer.from(header.value ?? []).toString() === digits;
  return whole ? { stream, sequence } : undefined;
}
