/** Checks vectors of APIs and records against the generated codecs. */
import fs from 'node:fs';
import { type Message, parseMessage } from '../../../scripts/generate/schema.js';
import type { ApiFacts } from '../../../src/protocol/api.ts';
import { API_FACTS } from '../../../src/protocol/generated/api-keys.ts';
import { Reader } from '../../../src/protocol/reader.ts';
import { Writer } from '../../../src/protocol/writer.ts';
import { ExactReader, ExactWriter } from './exact.ts';
import { firstDifference, fromJson, type Json, toFileText, toJson } from './json.ts';

export interface ApiVector {
  readonly api: string;
  readonly key: number;
  readonly version: number;
  readonly type: 'request' | 'response';
  readonly headerVersion: number;
  readonly json: Json;
  readonly hex: string;
}

export interface RecordVector {
  readonly family: string;
  readonly name: string;
  readonly version: number;
  readonly id?: number;
  readonly part?: 'key' | 'value';
  readonly json: Json;
  readonly hex: string;
  readonly framed?: string;
  readonly file?: string;
}

/** An entry of a record family: a schema, or those of a key and a value. */
interface RecordSchema {
  readonly name: string;
  readonly key?: { readonly name: string };
  readonly value?: { readonly name: string };
}

/** One message's schema and generated functions. */
export interface Codec {
  readonly schema: Message;
  readonly ids: Readonly<Record<string, number>> | undefined;
  read(r: Reader, version: number): unknown;
  write(w: Writer, version: number, message: unknown): void;
}

const root = new URL('../../../', import.meta.url);

function schemaFile(path: string): unknown {
  return JSON.parse(fs.readFileSync(new URL(`src/protocol/schemas/${path}`, root), 'utf8'));
}

const cache = new Map<string, Promise<Codec>>();

function codec(module: string, name: string, schema: () => unknown): Promise<Codec> {
  const key = `${module}/${name}`;
  let found = cache.get(key);
  if (!found) {
    found = load(module, name, schema());
    cache.set(key, found);
  }
  return found;
}

async function load(module: string, name: string, schema: unknown): Promise<Codec> {
  const model = parseMessage(schema);
  if (!model) throw new Error(`no version of ${name} is left`);
  const url = new URL(`src/protocol/generated/${module}.ts`, root).href;
  const generated = (await import(/* @vite-ignore */ url)) as Record<string, unknown>;
  return {
    schema: model,
    ids: generated.RecordId as Record<string, number> | undefined,
    read: generated[`read${name}`] as Codec['read'],
    write: generated[`write${name}`] as Codec['write'],
  };
}

export function apiCodec(api: string, type: 'request' | 'response'): Promise<Codec> {
  const name = api + (type === 'request' ? 'Request' : 'Response');
  return codec(api, name, () => (schemaFile(`api/${api}.json`) as Record<string, unknown>)[type]);
}

export function recordCodec(family: string, name: string): Promise<Codec> {
  return codec(family, name, () => {
    const entries = schemaFile(`records/${family}.json`) as RecordSchema[];
    const all = entries.flatMap(({ key, value, ...whole }) => (key && value ? [key, value] : [whole]));
    return all.find((schema) => schema.name === name);
  });
}

/** Decodes and encodes, exactly and as the broker does it. Throws at the first fault. */
function checkBody({ schema, read, write }: Codec, version: number, json: Json, hex: string): void {
  const bytes = Buffer.from(hex, 'hex');
  const r = new ExactReader(bytes);
  const message = read(r, version);
  if (r.remaining > 0) throw new Error(`decoding leaves ${r.remaining} bytes`);
  const difference = firstDifference(json, toJson(schema.root, version, message));
  if (difference !== undefined) throw new Error(`decoded ${difference}`);
  checkBytes('decoded and encoded again', bytes, write, version, message);
  checkBytes('encoded', bytes, write, version, fromJson(schema.root, json));

  const broker = new Reader(bytes);
  const near = read(broker, version);
  if (broker.remaining > 0) throw new Error(`the broker's reader leaves ${broker.remaining} bytes`);
  const w = new Writer();
  write(w, version, near);
  if (w.position !== bytes.length) throw new Error(`the broker's writer wrote ${w.position} bytes`);
}

function checkBytes(
  what: string,
  bytes: Buffer,
  write: Codec['write'],
  version: number,
  message: unknown,
): void {
  const w = new ExactWriter(16);
  write(w, version, message);
  const got = w.bytes();
  if (got.equals(bytes)) return;
  let at = 0;
  while (at < got.length && got[at] === bytes[at]) at++;
  const around = (b: Buffer) => b.subarray(Math.max(0, at - 8), at + 8).toString('hex');
  throw new Error(
    `${what}: ${got.length} bytes, expected ${bytes.length}; from byte ${at} on: ${around(got)}, expected ${around(bytes)}`,
  );
}

export async function checkApi(vector: ApiVector): Promise<void> {
  const facts: ApiFacts | undefined = API_FACTS[vector.key];
  if (facts?.name !== vector.api) throw new Error(`API key ${vector.key} is ${facts?.name}`);
  const header =
    vector.type === 'request'
      ? facts.requestHeaderVersion(vector.version)
      : facts.responseHeaderVersion(vector.version);
  if (header !== vector.headerVersion) throw new Error(`header ${header}, expected ${vector.headerVersion}`);
  checkBody(await apiCodec(vector.api, vector.type), vector.version, vector.json, vector.hex);
}

/** Families whose records are stored with varint 1, varint type id and varint version in front. */
const VARINT_FRAMED = new Set(['kraft-metadata', 'remote-log-metadata']);
/** Control records that begin with their version anyway: it is a field of theirs. */
const OWN_VERSION = new Set([
  'LeaderChangeMessage',
  'SnapshotHeaderRecord',
  'SnapshotFooterRecord',
  'KRaftVersionRecord',
  'VotersRecord',
]);

/** Keys of the coordinators' records begin with their type id. */
function isKey({ part, name, id }: RecordVector): boolean {
  return part === undefined ? id !== undefined && name.endsWith('Key') : part === 'key';
}

export async function checkRecord(vector: RecordVector): Promise<void> {
  const { family, name, version } = vector;
  const codec = await recordCodec(family, name);
  checkBody(codec, version, vector.json, vector.hex);
  const id = codec.ids?.[name] ?? codec.ids?.[name.replace(/(Key|Value)$/, '')];
  if (vector.id !== undefined && id !== vector.id) throw new Error(`type id ${id}, expected ${vector.id}`);
  if (vector.framed !== undefined) {
    const w = new Writer();
    if (VARINT_FRAMED.has(family)) {
      w.unsignedVarint(1);
      w.unsignedVarint(id!);
      w.unsignedVarint(version);
    } else if (isKey(vector)) w.int16(id!);
    else if (family !== 'headers' && !OWN_VERSION.has(name)) w.int16(version);
    const framed = w.bytes().toString('hex') + vector.hex;
    if (framed !== vector.framed) throw new Error(`framed ${framed}, expected ${vector.framed}`);
  }
  if (vector.file !== undefined) {
    const text = toFileText(codec.schema.root, version, vector.json);
    if (text !== vector.file) throw new Error(`as a file ${text}, expected ${vector.file}`);
  }
}
