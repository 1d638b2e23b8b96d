/** Messages as the JSON of the golden vectors and back, by their schemas: int64 as decimal text, bytes as base64, unknown
 * tagged fields as `_unknownTaggedFields`. */
import { type Field, formOf, type Struct, type Type, within } from '../../../scripts/generate/schema.js';
import { exactInt64 } from './exact.ts';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type JsonObject = { [name: string]: Json };
type Message = { [name: string]: unknown };

const UNKNOWN = '_unknownTaggedFields';

/** What a generated reader returned -> JSON. */
export function toJson(struct: Struct, version: number, message: unknown): JsonObject {
  const result: JsonObject = {};
  const values = message as Message;
  for (const field of struct.fields) {
    const value = valueToJson(field.type, version, values[field.name]);
    const form = formOf(field, version);
    if (form && !form.tagged) {
      result[field.name] = value;
      continue;
    }
    const standard = defaultJson(field, version);
    if (firstDifference(standard, value) === undefined) continue;
    if (!form) throw new Error(`${field.name} was read in version ${version}, which lacks it`);
    result[field.name] = value;
  }
  const unknown = values.unknownTaggedFields as { tag: number; data: Uint8Array }[] | undefined;
  if (unknown !== undefined) {
    result[UNKNOWN] = unknown.map(({ tag, data }) => ({ tag, data: Buffer.from(data).toString('base64') }));
  }
  return result;
}

function valueToJson(type: Type, version: number, value: unknown): Json {
  if (value === null) return null;
  if (value === undefined) throw new Error('a field is undefined');
  if (type.kind === 'array') return (value as unknown[]).map((item) => valueToJson(type.of, version, item));
  if (type.kind === 'struct') return toJson(type.struct, version, value);
  if (type.kind === 'sized' && type.name !== 'string')
    return Buffer.from(value as Uint8Array).toString('base64');
  if (type.kind === 'fixed' && type.name === 'int64') return String(value);
  if (type.kind === 'fixed' && type.name === 'float64' && !Number.isFinite(value)) return String(value);
  return value as Json;
}

function defaultJson(field: Field, version: number): Json {
  const { type, default: standard } = field;
  if (typeof standard === 'bigint' || (type.kind === 'fixed' && type.name === 'int64'))
    return String(standard);
  if (standard !== undefined) return standard;
  if (type.kind === 'array') return [];
  if (type.kind !== 'struct') return '';
  const result: JsonObject = {};
  for (const inner of type.struct.fields) {
    const form = formOf(inner, version);
    if (form && !form.tagged) result[inner.name] = defaultJson(inner, version);
  }
  return result;
}

/** JSON -> what a generated writer takes. Throws on a name that the schema does not have. */
export function fromJson(struct: Struct, json: Json): Message {
  const result: Message = {};
  const fields = new Map(struct.fields.map((field) => [field.name, field]));
  for (const [name, value] of Object.entries(json as JsonObject)) {
    const field = fields.get(name);
    if (field) result[name] = valueFromJson(field.type, value);
    else if (name === UNKNOWN) {
      result.unknownTaggedFields = (value as { tag: number; data: string }[]).map(({ tag, data }) => ({
        tag,
        data: Buffer.from(data, 'base64'),
      }));
    } else throw new Error(`the schema has no ${struct.typeName}.${name}`);
  }
  return result;
}

function valueFromJson(type: Type, value: Json): unknown {
  if (value === null) return null;
  if (type.kind === 'array') return (value as Json[]).map((item) => valueFromJson(type.of, item));
  if (type.kind === 'struct') return fromJson(type.struct, value);
  if (type.kind === 'sized' && type.name !== 'string') return Buffer.from(value as string, 'base64');
  if (type.kind === 'fixed' && type.name === 'int64') return exactInt64(BigInt(value as string));
  if (type.kind === 'fixed' && type.name === 'float64') return Number(value);
  return value;
}

/** The JSON text of a `quorum-state` file: int64 are plain numbers there, and unknown tags are not written. */
export function toFileText(struct: Struct, version: number, json: Json): string {
  return `${fileObject(struct, version, json as JsonObject).slice(0, -1)},"data_version":${version}}`;
}

function fileObject(struct: Struct, version: number, json: JsonObject): string {
  const members = struct.fields
    .filter((field) => within(field.versions, version))
    .map(
      (field) => `${JSON.stringify(field.name)}:${fileValue(field.type, version, json[field.name] as Json)}`,
    );
  return `{${members.join(',')}}`;
}

function fileValue(type: Type, version: number, value: Json): string {
  if (value === null) return 'null';
  if (type.kind === 'array') {
    return `[${(value as Json[]).map((item) => fileValue(type.of, version, item)).join(',')}]`;
  }
  if (type.kind === 'struct') return fileObject(type.struct, version, value as JsonObject);
  return type.kind === 'fixed' && type.name === 'int64' ? String(value) : JSON.stringify(value);
}

/** Where two JSON values differ first: a path and both values; undefined if they are equal. */
export function firstDifference(
  expected: Json | undefined,
  got: Json | undefined,
  path = '$',
): string | undefined {
  if (Object.is(expected, got)) return undefined;
  if (Array.isArray(expected) && Array.isArray(got)) {
    if (expected.length !== got.length) return `${path}: ${got.length} elements, expected ${expected.length}`;
    for (let i = 0; i < got.length; i++) {
      const difference = firstDifference(expected[i], got[i], `${path}[${i}]`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  if (isObject(expected) && isObject(got)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(got)])) {
      const difference = firstDifference(expected[name], got[name], `${path}.${name}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  return `${path}: ${show(got)}, expected ${show(expected)}`;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function show(value: Json | undefined): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
