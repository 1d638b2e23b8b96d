/** How records are written in the input of `produce`: pieces of a stream, as text with fields or as JSON. */
import type { RecordHeader } from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';

export const INPUT_FIELDS = ['key', 'value', 'headers', 'partition', 'timestamp'] as const;
export type InputField = (typeof INPUT_FIELDS)[number];

export interface Input {
  readonly key: Uint8Array | null | undefined;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
  readonly partition: number | undefined;
  /** ms since the epoch. */
  readonly timestamp: number;
}

/** Longest record read, bytes: an input without a delimiter must not fill the memory. */
const MOST_BYTES = 1024 * 1024 * 1024;

/** The stream cut at a delimiter, which is left out, or every so many bytes. What follows the last delimiter counts when
 * there is something. */
export async function* pieces(stream: AsyncIterable<Buffer>, cut: Buffer | number): AsyncGenerator<Buffer> {
  const uncut = typeof cut !== 'number' && cut.length === 0;
  let rest: Buffer[] = [];
  let restBytes = 0;
  for await (const chunk of stream) {
    let from = 0;
    // A delimiter of several bytes may lie across two chunks: then they are looked at as one.
    let bytes = chunk;
    if (typeof cut !== 'number' && cut.length > 1 && restBytes > 0) {
      bytes = Buffer.concat([...rest, chunk]);
      from = Math.max(0, restBytes - cut.length + 1);
      rest = [];
      restBytes = 0;
    }
    let start = 0;
    while (!uncut) {
      const end =
        typeof cut === 'number' ? start + cut - restBytes : bytes.indexOf(cut, Math.max(from, start));
      if (end < 0 || end > bytes.length) break;
      const last = bytes.subarray(start, end);
      yield restBytes === 0 ? last : Buffer.concat([...rest, last]);
      rest = [];
      restBytes = 0;
      start = end + (typeof cut === 'number' ? 0 : cut.length);
    }
    if (start < bytes.length) {
      rest.push(bytes.subarray(start));
      restBytes += bytes.length - start;
    }
    if (restBytes > MOST_BYTES) {
      throw new BroadsheetError('MALFORMED', `the input has no delimiter within ${MOST_BYTES} bytes`);
    }
  }
  if (restBytes > 0) yield Buffer.concat(rest);
}

export interface TextFormat {
  readonly fields: readonly InputField[];
  readonly separator: Buffer;
  readonly null?: Buffer;
}

/** A record of fields with a separator between them; the last field has all that is left. Throws MALFORMED. */
export function textRecord(piece: Buffer, format: TextFormat): Input {
  const { fields, separator } = format;
  let key: Uint8Array | null | undefined;
  let value: Uint8Array | null = null;
  let headers: RecordHeader[] = [];
  let partition: number | undefined;
  let timestamp: number | undefined;
  let at = 0;
  for (let index = 0; index < fields.length; index++) {
    let end = piece.length;
    if (index < fields.length - 1) {
      end = piece.indexOf(separator, at);
      if (end < 0)
        throw malformed(`${fields.length} fields are expected (${fields.join(', ')}), ${index + 1} found`);
    }
    const bytes = piece.subarray(at, end);
    const isNull = format.null !== undefined && bytes.equals(format.null);
    switch (fields[index]!) {
      case 'key':
        key = isNull ? null : bytes;
        break;
      case 'value':
        value = isNull ? null : bytes;
        break;
      case 'headers':
        headers = headersOf(bytes.toString());
        break;
      case 'partition':
        partition = whole(bytes.toString(), 'partition');
        break;
      case 'timestamp':
        timestamp = timeOf(bytes.toString());
        break;
    }
    at = end + separator.length;
  }
  return { key, value, headers, partition, timestamp: timestamp ?? Date.now() };
}

/** `a=1,b=2`. */
function headersOf(text: string): RecordHeader[] {
  if (text === '') return [];
  return text.split(',').map((pair) => {
    const at = pair.indexOf('=');
    if (at <= 0) throw malformed(`headers are written key=value,key=value, not ${JSON.stringify(pair)}`);
    return { key: pair.slice(0, at), value: Buffer.from(pair.slice(at + 1)) };
  });
}

function whole(text: string, what: string): number {
  if (!/^\d{1,16}$/.test(text)) throw malformed(`no ${what}: ${JSON.stringify(text)}`);
  return Number(text);
}

/** ms since the epoch, or ISO 8601. */
function timeOf(text: string): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isNaN(value)) throw malformed(`no timestamp: ${JSON.stringify(text)}`);
  return value;
}

/** A record as `consume --json` prints it; of its fields only `value` must be there. Throws MALFORMED. */
export function jsonRecord(piece: Buffer): Input {
  let parsed: unknown;
  try {
    parsed = JSON.parse(piece.toString());
  } catch (error) {
    throw malformed(`no JSON: ${(error as Error).message}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw malformed('no JSON object');
  const record = parsed as Record<string, unknown>;
  const value = bytesOf(record, 'value');
  if (value === undefined) throw malformed('it has neither value nor valueBase64');
  const headers = record.headers ?? [];
  if (!Array.isArray(headers)) throw malformed('headers is no list');
  return {
    key: bytesOf(record, 'key'),
    value,
    headers: headers.map((header: unknown) => {
      const { key } = (header ?? {}) as Record<string, unknown>;
      if (typeof key !== 'string') throw malformed('a header has no key');
      return { key, value: bytesOf(header as Record<string, unknown>, 'value') ?? null };
    }),
    partition: natural(record, 'partition'),
    timestamp: natural(record, 'timestamp') ?? Date.now(),
  };
}

function bytesOf(record: Record<string, unknown>, field: string): Uint8Array | null | undefined {
  const coded = record[`${field}Base64`];
  if (typeof coded === 'string') return Buffer.from(coded, 'base64');
  const text = record[field];
  if (text === undefined || text === null) return text;
  if (typeof text !== 'string') throw malformed(`${field} is neither text nor null`);
  return Buffer.from(text);
}

function natural(record: Record<string, unknown>, field: string): number | undefined {
  const value = record[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw malformed(`${field} is no whole number from 0 on`);
  }
  return value;
}

function malformed(what: string): BroadsheetError {
  return new BroadsheetError('MALFORMED', what);
}
