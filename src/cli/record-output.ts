/** How `consume` prints records: fields of text, or JSON. Keys and values are bytes, and stay as they are in text. */
import { isUtf8 } from 'node:buffer';
import type { RecordView } from '../protocol/records/batch.ts';

export const OUTPUT_FIELDS = [
  'topic',
  'partition',
  'offset',
  'timestamp',
  'headers',
  'key',
  'value',
] as const;
export type OutputField = (typeof OUTPUT_FIELDS)[number];

export interface OutputFormat {
  readonly fields: readonly OutputField[];
  readonly separator: Buffer;
  readonly delimiter: Buffer;
  readonly null: Buffer;
}

/** Appends the pieces of one record. */
export type Formatter = (out: Uint8Array[], topic: string, partition: number, record: RecordView) => void;

export function textFormatter({ fields, separator, delimiter, null: nothing }: OutputFormat): Formatter {
  const value: Formatter = (out, _topic, _partition, record) => out.push(record.value ?? nothing);
  const field = (name: OutputField): Formatter => {
    switch (name) {
      case 'value':
        return value;
      case 'key':
        return (out, _topic, _partition, record) => out.push(record.key ?? nothing);
      case 'topic':
        return (out, topic) => out.push(Buffer.from(topic));
      case 'partition':
        return (out, _topic, partition) => out.push(Buffer.from(String(partition)));
      case 'offset':
        return (out, _topic, _partition, record) => out.push(Buffer.from(String(record.offset)));
      case 'timestamp':
        return (out, _topic, _partition, record) => out.push(Buffer.from(String(record.timestamp)));
      case 'headers':
        return (out, _topic, _partition, record) => out.push(headersText(record, nothing));
    }
  };
  const formatters = fields.map(field);
  return (out, topic, partition, record) => {
    for (let index = 0; index < formatters.length; index++) {
      if (index > 0) out.push(separator);
      formatters[index]!(out, topic, partition, record);
    }
    if (delimiter.length > 0) out.push(delimiter);
  };
}

/** `a=1,b=2`. */
function headersText({ headers }: RecordView, nothing: Buffer): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const { key, value } of headers) {
    parts.push(Buffer.from(`${parts.length > 0 ? ',' : ''}${key}=`), value ?? nothing);
  }
  return Buffer.concat(parts);
}

/** A JSON object a line. Bytes that are UTF-8 are text, others base64 under a name that says so. */
export const jsonFormatter: Formatter = (out, topic, partition, record) => {
  const line = JSON.stringify({
    topic,
    partition,
    offset: record.offset,
    timestamp: record.timestamp,
    ...bytesField('key', record.key),
    ...bytesField('value', record.value),
    headers: record.headers.map(({ key, value }) => ({ key, ...bytesField('value', value) })),
  });
  out.push(Buffer.from(`${line}\n`));
};

/** A field as text where the bytes are UTF-8, else as base64 under `<name>Base64`. */
export function bytesField(name: string, bytes: Uint8Array | null): Record<string, string | null> {
  if (bytes === null) return { [name]: null };
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return isUtf8(bytes) ? { [name]: buffer.toString() } : { [`${name}Base64`]: buffer.toString('base64') };
}
