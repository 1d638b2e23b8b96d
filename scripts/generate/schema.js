// Reads schema files into a model that says, for each field and version, what is on the wire.

const FIXED = {
  bool: { size: 1, method: 'boolean', ts: 'boolean' },
  int8: { size: 1, method: 'int8', ts: 'number' },
  int16: { size: 2, method: 'int16', ts: 'number' },
  uint16: { size: 2, method: 'uint16', ts: 'number' },
  int32: { size: 4, method: 'int32', ts: 'number' },
  uint32: { size: 4, method: 'uint32', ts: 'number' },
  int64: { size: 8, method: 'int64', ts: 'number' },
  float64: { size: 8, method: 'float64', ts: 'number' },
  uuid: { size: 16, method: 'uuid', ts: 'string' },
};
const SIZED = { string: 'string', bytes: 'Uint8Array', records: 'Uint8Array' };

/** "3+", "0-5", "2", "none" or undefined -> [from, to], inclusive. */
export function parseVersions(text) {
  if (text === undefined || text === 'none') return [1, 0];
  const match = /^(\d+)(?:(\+)|-(\d+))?$/.exec(text);
  if (!match) throw new Error(`versions "${text}"`);
  const from = Number(match[1]);
  return [from, match[2] ? Number.POSITIVE_INFINITY : match[3] ? Number(match[3]) : from];
}

export const within = (range, version) => version >= range[0] && version <= range[1];
export const isEmpty = (range) => range[0] > range[1];

const camel = (name) => name[0].toLowerCase() + name.slice(1);

/** The model of one message or record; undefined if no version of it is left. */
export function parseMessage(schema) {
  const valid = parseVersions(schema.validVersions);
  if (isEmpty(valid)) return undefined;
  if (!Number.isFinite(valid[1])) throw new Error(`${schema.name}: validVersions without an end`);
  const message = {
    name: schema.name,
    valid,
    flexible: parseVersions(schema.flexibleVersions),
    structs: new Map(),
    root: undefined,
  };
  const common = new Map((schema.commonStructs ?? []).map((struct) => [struct.name, struct.fields]));
  const open = new Set();

  const structOf = (name, fields) => {
    const own = fields ?? common.get(name);
    if (!own) throw new Error(`${schema.name}: no struct ${name}`);
    const known = message.structs.get(name);
    if (known) {
      if (known.source !== own) throw new Error(`${schema.name}: two structs ${name}`);
      return known;
    }
    // Nesting is as deep as the schema, never as the bytes.
    if (open.has(name)) throw new Error(`${schema.name}: struct ${name} contains itself`);
    open.add(name);
    const typeName = name.startsWith(schema.name) ? name : schema.name + name;
    const struct = { typeName, source: own, fields: own.map(parseField), message };
    open.delete(name);
    message.structs.set(name, struct);
    return struct;
  };

  const parseType = (text, fields) => {
    if (text.startsWith('[]')) return { kind: 'array', of: parseType(text.slice(2), fields) };
    if (FIXED[text]) return { kind: 'fixed', name: text, ...FIXED[text] };
    if (SIZED[text]) return { kind: 'sized', name: text, ts: SIZED[text] };
    return { kind: 'struct', struct: structOf(text, fields) };
  };

  const parseField = (field) => {
    const type = parseType(field.type, field.fields);
    const parsed = {
      name: camel(field.name),
      type,
      versions: parseVersions(field.versions),
      nullable: parseVersions(field.nullableVersions),
      tagged: parseVersions(field.taggedVersions),
      tag: field.tag,
      flexible:
        field.flexibleVersions === undefined ? message.flexible : parseVersions(field.flexibleVersions),
      ignorable: field.ignorable === true,
      hasDefault: field.default !== undefined,
      default: defaultOf(type, field.default),
    };
    if (type.kind === 'array' && type.of.kind === 'array') throw new Error(`${field.name}: array of arrays`);
    if (!isEmpty(parsed.tagged) !== (field.tag !== undefined)) throw new Error(`${field.name}: tag`);
    parsed.neverNull = isEmpty(parsed.nullable) && parsed.default !== null;
    return parsed;
  };

  message.root = { typeName: schema.name, fields: schema.fields.map(parseField), message };
  settleVersions(message);
  return message;
}

/** Works out in which versions each struct is used at all, and from that which fields a writer may leave out. */
function settleVersions(message) {
  message.root.used = message.valid;
  // Structs were added after those that they contain.
  for (const struct of [message.root, ...[...message.structs.values()].reverse()]) {
    if (struct.used === undefined) throw new Error(`${struct.typeName} is used by nothing`);
    for (const field of struct.fields) {
      const from = Math.max(field.versions[0], struct.used[0]);
      const to = Math.min(field.versions[1], struct.used[1]);
      field.optional =
        field.hasDefault ||
        !isEmpty(field.tagged) ||
        field.ignorable ||
        from !== struct.used[0] ||
        to !== struct.used[1];
      const inner = field.type.kind === 'array' ? field.type.of.struct : field.type.struct;
      if (!inner) continue;
      const used = from > to ? struct.used : [from, to];
      inner.used = inner.used ? [Math.min(inner.used[0], used[0]), Math.max(inner.used[1], used[1])] : used;
    }
  }
}

/** The default as a value: number, bigint (beyond 2^53), boolean, string, null, or undefined for an empty one. */
function defaultOf(type, text) {
  if (text === 'null') {
    if (type.kind === 'fixed') throw new Error(`null as a default of ${type.name}`);
    return null;
  }
  if (type.kind === 'sized' && type.name === 'string') return text ?? '';
  if (type.kind === 'sized' && type.name === 'records') return null;
  if (type.kind !== 'fixed') {
    if (text) throw new Error(`default "${text}" of ${type.kind}`);
    return undefined;
  }
  if (type.name === 'bool') return text === 'true';
  if (type.name === 'uuid') return 'AAAAAAAAAAAAAAAAAAAAAA';
  if (text === undefined) return 0;
  if (type.name === 'int64' && !Number.isSafeInteger(Number(text))) return BigInt(text);
  const value = Number(text);
  if (text === '' || Number.isNaN(value)) throw new Error(`default "${text}" of ${type.name}`);
  return value;
}

/** What a field is in one version: undefined if it is not there. */
export function formOf(field, version) {
  if (!within(field.versions, version)) return undefined;
  return {
    tagged: within(field.tagged, version),
    nullable: within(field.nullable, version),
    flexible: within(field.flexible, version),
  };
}

/** Runs of versions in which a field looks the same on the wire: [{from, to, form}]. */
export function segmentsOf(field, [from, to]) {
  const sized = field.type.kind === 'sized' || field.type.kind === 'array';
  const segments = [];
  let last;
  for (let version = from; version <= to; version++) {
    const form = formOf(field, version);
    const key = form ? `${form.tagged} ${form.nullable} ${sized && form.flexible}` : 'absent';
    if (last && last.key === key) last.to = version;
    else {
      last = { from: version, to: version, form, key };
      segments.push(last);
    }
  }
  return segments;
}

/** The least number of bytes that a value takes in a version. */
function leastBytes(type, version, flexible, nullable) {
  switch (type.kind) {
    case 'fixed':
      return type.size;
    case 'sized':
      return flexible ? 1 : type.name === 'string' ? 2 : 4;
    case 'array':
      return flexible ? 1 : 4;
    case 'struct':
      return nullable ? 1 : leastBytesOfStruct(type.struct, version);
    default:
      throw new Error(type.kind);
  }
}

function leastBytesOfStruct(struct, version) {
  let bytes = within(struct.message.flexible, version) ? 1 : 0;
  for (const field of struct.fields) {
    const form = formOf(field, version);
    if (form && !form.tagged) bytes += leastBytes(field.type, version, form.flexible, form.nullable);
  }
  return bytes;
}

/** The least number of bytes of an array's element over a run of versions. */
export function leastElementBytes(type, { from, to, form }) {
  let least = Number.POSITIVE_INFINITY;
  for (let version = from; version <= to; version++) {
    least = Math.min(least, leastBytes(type, version, form.flexible, false));
  }
  if (least < 1) throw new Error('elements of no bytes: their count cannot be checked');
  return least;
}
