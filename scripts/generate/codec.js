// Writes the TypeScript of one message: types, reader, writer. Straight-line: no schema is looked at when it runs.
import { isEmpty, leastElementBytes, segmentsOf } from './schema.js';

export const quote = (text) => `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'")}'`;
const halves = (value) => {
  const bits = BigInt.asUintN(64, value);
  return `${BigInt.asIntN(32, bits >> 32n)}, ${bits & 0xffffffffn}`;
};

function typeOf(type, input) {
  if (type.kind === 'array') {
    const element = typeOf(type.of, input);
    return input ? `readonly ${element}[]` : `${element}[]`;
  }
  if (type.kind === 'struct') return type.struct.typeName + (input ? 'Input' : '');
  return type.ts;
}

const fieldType = (field, input) => typeOf(field.type, input) + (field.neverNull ? '' : ' | null');

/** A literal of a field's default; `maker` is what turns halves into an int64 (r or w). */
function defaultCode(field, maker) {
  const value = field.default;
  if (typeof value === 'bigint') return `${maker}.int64Of(${halves(value)})`;
  if (typeof value === 'string') return quote(value);
  if (value !== undefined) return String(value);
  if (field.type.kind === 'array') return maker === 'r' ? '[]' : 'NOTHING';
  if (field.type.kind === 'struct')
    return maker === 'r'
      ? `default${field.type.struct.typeName}(r)`
      : `STANDARD_${field.type.struct.typeName}`;
  return 'NO_BYTES';
}

/** Emits one message. Structs come before whoever uses them. */
export function emitMessage(message) {
  const out = [];
  const structs = [...message.structs.values(), message.root];
  const needsDefault = new Set();
  const needsIsDefault = new Set();
  for (const struct of structs) out.push(emitTypes(struct));
  out.push(...emitStandards(structs));

  const bodies = [];
  for (const struct of structs) {
    const top = struct === message.root;
    bodies.push(emitReader(struct, top, needsDefault));
    bodies.push(emitWriter(struct, top, needsIsDefault));
  }
  // A default struct's own structs need theirs too; parents come last.
  for (const struct of [...structs].reverse()) {
    if (needsDefault.has(struct)) bodies.push(emitDefault(struct, needsDefault));
    if (needsIsDefault.has(struct)) bodies.push(emitIsDefault(struct, needsIsDefault));
  }
  return [...out, ...bodies].join('\n');
}

/** Constants of structs that may be left out of what is written. */
function emitStandards(structs) {
  const needed = new Set();
  const inspect = (struct, field) => {
    if (field.type.kind === 'struct' && field.default === undefined) {
      if (field.optional || needed.has(struct)) needed.add(field.type.struct);
    }
  };
  for (const struct of [...structs].reverse()) for (const field of struct.fields) inspect(struct, field);
  return structs
    .filter((struct) => needed.has(struct))
    .map((struct) => {
      const values = struct.fields.map((field) => {
        const code = defaultCode(field, 'w');
        if (code.startsWith('w.')) throw new Error(`${struct.typeName}.${field.name}: a default beyond 2^53`);
        return `${field.name}: ${code}`;
      });
      return `const STANDARD_${struct.typeName}: ${struct.typeName}Input = { ${values.join(', ')} };\n`;
    });
}

function emitTypes(struct) {
  const lines = [`export interface ${struct.typeName} {`];
  for (const field of struct.fields) lines.push(`  ${field.name}: ${fieldType(field, false)};`);
  const flexible = !isEmpty(struct.message.flexible);
  if (flexible) lines.push('  unknownTaggedFields?: TaggedField[];');
  lines.push('}', '', `export interface ${struct.typeName}Input {`);
  for (const field of struct.fields) {
    const optional = field.optional ? '?' : '';
    lines.push(`  readonly ${field.name}${optional}: ${fieldType(field, true)};`);
  }
  if (flexible) lines.push('  readonly unknownTaggedFields?: readonly TaggedField[];');
  lines.push('}', '');
  return lines.join('\n');
}

/** if / else if over the runs of versions; `body(segment)` gives lines, or undefined for nothing to do. */
function branches(segments, indent, body) {
  const blocks = segments.map((segment) => ({ segment, lines: body(segment) }));
  if (blocks.length === 1) return (blocks[0].lines ?? []).map((line) => indent + line);
  // Without lines at the start or end a plain condition is enough.
  const lines = [];
  const last = blocks.length - 1;
  const useful = blocks.filter((block) => block.lines !== undefined);
  if (useful.length === 0) return lines;
  if (useful.length === 1) {
    const { segment } = useful[0];
    const conditions = [];
    if (segment !== blocks[0].segment) conditions.push(`version >= ${segment.from}`);
    if (segment !== blocks[last].segment) conditions.push(`version <= ${segment.to}`);
    lines.push(`${indent}if (${conditions.join(' && ')}) {`);
    lines.push(...useful[0].lines.map((line) => `${indent}  ${line}`), `${indent}}`);
    return lines;
  }
  blocks.forEach(({ segment, lines: inner }, index) => {
    const head =
      index === 0
        ? `if (version <= ${segment.to}) {`
        : index === last
          ? '} else {'
          : `} else if (version <= ${segment.to}) {`;
    lines.push(indent + head, ...(inner ?? []).map((line) => `${indent}  ${line}`));
  });
  lines.push(`${indent}}`);
  return lines;
}

/** The versions in which a struct is flexible, as a condition; undefined if never, '' if always. */
function flexibleCondition(struct) {
  const { message, used } = struct;
  const [from, to] = used;
  const low = Math.max(from, message.flexible[0]);
  const high = Math.min(to, message.flexible[1]);
  if (low > high) return undefined;
  if (high !== to) throw new Error(`${message.name}: stops being flexible`);
  return low === from ? '' : `version >= ${low}`;
}

const prefixOf = (form) =>
  form.flexible ? (form.nullable ? 'compactNullable' : 'compact') : form.nullable ? 'nullable' : '';
const lower = (name) => name[0].toLowerCase() + name.slice(1);

// Reading

function readValue(type, form) {
  if (type.kind === 'fixed') return `r.${type.method}()`;
  if (type.kind === 'sized') {
    const base = type.name === 'string' ? 'String' : 'Bytes';
    return `r.${lower(prefixOf(form) + base)}()`;
  }
  const call = `read${type.struct.typeName}(${type.struct.readerTakesVersion ? 'r, version' : 'r'})`;
  if (!form.nullable) return call;
  // In a tagged field Kafka writes 0 for null, elsewhere -1 (seen in its __consumer_offsets).
  return `r.int8() ${form.tagged ? '<=' : '<'} 0 ? null : ${call}`;
}

/** Lines that read a field into its variable. */
function readField(field, segment) {
  const { type } = field;
  const target = `_${field.name}`;
  if (type.kind !== 'array') return [`${target} = ${readValue(type, segment.form)};`];
  const element = readValue(type.of, { flexible: segment.form.flexible, nullable: false });
  const count = `r.${lower(`${prefixOf(segment.form)}ArrayCount`)}(${leastElementBytes(type.of, segment)})`;
  const fill = [
    `const values: ${typeOf(type, false)} = [];`,
    `for (let i = 0; i < count; i++) values.push(${element});`,
    `${target} = values;`,
  ];
  if (!segment.form.nullable) return [`const count = ${count};`, ...fill];
  return [
    `const count = ${count};`,
    `if (count < 0) ${target} = null;`,
    'else {',
    ...fill.map((line) => `  ${line}`),
    '}',
  ];
}

function emitReader(struct, top, needsDefault) {
  const { message } = struct;
  const lines = [];
  const initial = (field) => {
    if (field.default === undefined && field.type.kind === 'struct') needsDefault.add(field.type.struct);
    return `_${field.name} = ${defaultCode(field, 'r')};`;
  };
  for (const field of struct.fields) {
    const segments = segmentsOf(field, struct.used);
    const only = segments.length === 1 ? segments[0] : undefined;
    if (only?.form && !only.form.tagged && field.type.kind !== 'array') {
      lines.push(`  const _${field.name} = ${readValue(field.type, only.form)};`);
      continue;
    }
    lines.push(`  let _${field.name}: ${fieldType(field, false)};`);
    if (only?.form && !only.form.tagged) {
      lines.push('  {', ...readField(field, only).map((line) => `    ${line}`), '  }');
      continue;
    }
    lines.push(
      ...branches(segments, '  ', (segment) =>
        !segment.form || segment.form.tagged ? [initial(field)] : readField(field, segment),
      ),
    );
  }
  const condition = flexibleCondition(struct);
  if (condition !== undefined) {
    const tagged = taggedFields(struct);
    const section = [];
    if (tagged.length === 0) section.push('unknown = r.unknownTags();');
    else {
      section.push('for (let left = r.tagCount(); left > 0; left--) {');
      section.push('  const tag = r.unsignedVarint();', '  const end = r.tagEnd();', '  switch (tag) {');
      for (const { field, segments } of tagged) {
        section.push(`    case ${field.tag}:`);
        const known = segments.filter((segment) => segment.form?.tagged);
        const first = known[0].from;
        const final = known[known.length - 1].to;
        const limits = [];
        if (first > struct.used[0]) limits.push(`version < ${first}`);
        if (final < struct.used[1]) limits.push(`version > ${final}`);
        if (limits.length > 0) {
          section.push(`      if (${limits.join(' || ')}) throw tagUnknownToVersion(${field.tag}, version);`);
        }
        if (known.length !== 1) throw new Error(`${struct.typeName}.${field.name}: tagged in several ways`);
        const body = readField(field, known[0]);
        if (body.length === 1) section.push(`      ${body[0]}`);
        else section.push('      {', ...body.map((line) => `        ${line}`), '      }');
        section.push('      r.tagDone(tag, end);', '      break;');
      }
      section.push('    default:', '      unknown = r.unknownTag(unknown, tag, end);', '  }', '}');
    }
    lines.push('  let unknown: TaggedField[] | undefined;');
    if (condition === '') lines.push(...section.map((line) => `  ${line}`));
    else lines.push(`  if (${condition}) {`, ...section.map((line) => `    ${line}`), '  }');
  }
  const object = struct.fields.map((field) => `${field.name}: _${field.name}`).join(', ');
  if (condition === undefined) lines.push(`  return { ${object} };`);
  else {
    lines.push(`  const message: ${struct.typeName} = { ${object} };`);
    lines.push('  if (unknown !== undefined) message.unknownTaggedFields = unknown;', '  return message;');
  }
  if (top) {
    const [from, to] = message.valid;
    lines.unshift(
      `  if (version < ${from} || version > ${to}) throw versionUnreadable(${quote(struct.typeName)}, version);`,
    );
  }
  struct.readerTakesVersion = top || lines.some((line) => /\bversion\b/.test(line));
  const parameters = struct.readerTakesVersion ? 'r: Reader, version: number' : 'r: Reader';
  return [
    `${top ? 'export ' : ''}function read${struct.typeName}(${parameters}): ${struct.typeName} {`,
    ...lines,
    '}',
    '',
  ].join('\n');
}

function taggedFields(struct) {
  return struct.fields
    .map((field) => ({ field, segments: segmentsOf(field, struct.used) }))
    .filter(({ segments }) => segments.some((segment) => segment.form?.tagged))
    .sort((a, b) => a.field.tag - b.field.tag);
}

function emitDefault(struct, needsDefault) {
  const values = struct.fields.map((field) => {
    if (field.default === undefined && field.type.kind === 'struct' && !needsDefault.has(field.type.struct)) {
      needsDefault.add(field.type.struct);
    }
    return `${field.name}: ${defaultCode(field, 'r')}`;
  });
  const takes = values.some((value) => /\br\b/.test(value.slice(value.indexOf(':'))));
  return [
    `function default${struct.typeName}(${takes ? 'r' : '_r'}: Reader): ${struct.typeName} {`,
    `  return { ${values.join(', ')} };`,
    '}',
    '',
  ].join('\n');
}

// Writing

/** Lines that write a value. */
function writeValue(field, type, value, form) {
  if (type.kind === 'fixed') return [`w.${type.method}(${value});`];
  if (type.kind === 'sized') {
    const base = type.name === 'string' ? 'String' : 'Bytes';
    const name = lower(prefixOf(form) + base);
    return [`w.${name === 'bytes' ? 'bytesField' : name}(${value});`];
  }
  if (type.kind === 'struct') {
    const call = `write${type.struct.typeName}(w, ${type.struct.writerTakesVersion ? 'version, ' : ''}${value});`;
    if (!form.nullable) return [call];
    const nothing = form.tagged ? '0' : '-1';
    return [`if (${value} === null) w.int8(${nothing});`, 'else {', '  w.int8(1);', `  ${call}`, '}'];
  }
  const element = writeValue(field, type.of, `${value}[i]!`, { flexible: form.flexible, nullable: false });
  const loop = [
    form.flexible ? `w.unsignedVarint(${value}.length + 1);` : `w.int32(${value}.length);`,
    `for (let i = 0; i < ${value}.length; i++) ${element.join(' ')}`,
  ];
  if (!form.nullable) return loop;
  return [
    `if (${value} === null) ${form.flexible ? 'w.unsignedVarint(0)' : 'w.int32(-1)'};`,
    'else {',
    ...loop.map((line) => `  ${line}`),
    '}',
  ];
}

/** A condition that is true if a field is not at its default. */
function notDefault(field, value, needsIsDefault) {
  const standard = field.default;
  if (standard === null) return `${value} !== null`;
  let condition;
  if (typeof standard === 'bigint') return `!w.isInt64(${value}, ${halves(standard)})`;
  if (field.type.kind === 'struct') {
    needsIsDefault.add(field.type.struct);
    condition = `!isDefault${field.type.struct.typeName}(w, ${value})`;
  } else if (standard === undefined) condition = `${value}.length !== 0`;
  else condition = `${value} !== ${defaultCode(field, 'w')}`;
  if (field.neverNull || typeof standard === 'string') return condition;
  return `(${value} === null || ${condition})`;
}

function emitWriter(struct, top, needsIsDefault) {
  const { message } = struct;
  const lines = [];
  const path = (field) => quote(`${struct.typeName}.${field.name}`);
  for (const field of struct.fields) {
    const value = `_${field.name}`;
    if (field.optional) {
      const standard = defaultCode(field, 'w');
      lines.push(`  const ${value} = m.${field.name} === undefined ? ${standard} : m.${field.name};`);
    } else lines.push(`  const ${value} = m.${field.name};`);
    const segments = segmentsOf(field, struct.used);
    lines.push(
      ...branches(segments, '  ', ({ form }) => {
        if (!form) {
          if (field.ignorable) return undefined;
          return [
            `if (${notDefault(field, value, needsIsDefault)}) throw fieldUnsupported(${path(field)}, version);`,
          ];
        }
        if (form.tagged) return undefined;
        const body = writeValue(field, field.type, value, form);
        if (field.neverNull || form.nullable) return body;
        return [`if (${value} === null) throw fieldNull(${path(field)}, version);`, ...body];
      }),
    );
  }
  lines.push(...writeTags(struct, needsIsDefault, path));
  if (top) {
    const [from, to] = message.valid;
    lines.unshift(
      `  if (version < ${from} || version > ${to}) throw versionUnwritable(${quote(struct.typeName)}, version);`,
    );
  }
  struct.writerTakesVersion = top || lines.some((line) => /\bversion\b/.test(line));
  const usesMessage = lines.some((line) => /\bm\b/.test(line));
  const parameters = [
    lines.some((line) => /\bw\b/.test(line)) ? 'w: Writer' : '_w: Writer',
    ...(struct.writerTakesVersion ? ['version: number'] : []),
    `${usesMessage ? 'm' : '_m'}: ${struct.typeName}Input`,
  ];
  return [
    `${top ? 'export ' : ''}function write${struct.typeName}(${parameters.join(', ')}): void {`,
    ...lines,
    '}',
    '',
  ].join('\n');
}

function writeTags(struct, needsIsDefault, path) {
  const { message } = struct;
  const condition = flexibleCondition(struct);
  if (condition === undefined) {
    if (isEmpty(message.flexible)) return [];
  }
  const lines = ['  const unknown = m.unknownTaggedFields;'];
  const section = [];
  const tagged = taggedFields(struct);
  if (tagged.length === 0) section.push('w.unknownTags(unknown);');
  else {
    section.push('let count = unknown === undefined ? 0 : unknown.length;');
    const guards = tagged.map(({ field, segments }) => {
      const { from, to, form } = segments.find((segment) => segment.form?.tagged);
      const conditions = [];
      if (from > struct.used[0]) conditions.push(`version >= ${from}`);
      if (to < struct.used[1]) conditions.push(`version <= ${to}`);
      conditions.push(notDefault(field, `_${field.name}`, needsIsDefault));
      return { field, form, guard: conditions.join(' && ') };
    });
    for (const { guard } of guards) section.push(`if (${guard}) count++;`);
    section.push('w.unsignedVarint(count);', 'let next = 0;', 'if (count > 0) {');
    for (const { field, form, guard } of guards) {
      const value = `_${field.name}`;
      section.push(`  if (${guard}) {`);
      section.push(`    if (unknown !== undefined) next = w.unknownTagsBelow(unknown, next, ${field.tag});`);
      const body = writeValue(field, field.type, value, form);
      if (!field.neverNull && !form.nullable) {
        body.unshift(`if (${value} === null) throw fieldNull(${path(field)}, version);`);
      }
      if (field.type.kind === 'fixed') {
        section.push(`    w.unsignedVarint(${field.tag});`, `    w.unsignedVarint(${field.type.size});`);
        section.push(...body.map((line) => `    ${line}`));
      } else {
        section.push(
          `    const at = w.beginTag(${field.tag});`,
          ...body.map((line) => `    ${line}`),
          '    w.endTag(at);',
        );
      }
      section.push('  }');
    }
    section.push('  if (unknown !== undefined) w.unknownTagsBelow(unknown, next, 4294967296);', '}');
  }
  const refuse = `if (unknown !== undefined && unknown.length > 0) throw tagsUnsupported(${quote(struct.typeName)}, version);`;
  if (condition === undefined) lines.push(`  ${refuse}`);
  else if (condition === '') lines.push(...section.map((line) => `  ${line}`));
  else lines.push(`  if (${condition}) {`, ...section.map((line) => `    ${line}`), `  } else ${refuse}`);
  return lines;
}

function emitIsDefault(struct, needsIsDefault) {
  const lines = [];
  for (const field of struct.fields) {
    const value = `m.${field.name}`;
    const condition = notDefault(field, value, needsIsDefault);
    lines.push(
      field.optional
        ? `  if (${value} !== undefined && ${condition}) return false;`
        : `  if (${condition}) return false;`,
    );
  }
  const takes = lines.some((line) => /\bw\b/.test(line));
  return [
    `function isDefault${struct.typeName}(${takes ? 'w' : '_w'}: Writer, m: ${struct.typeName}Input): boolean {`,
    ...lines,
    isEmpty(struct.message.flexible)
      ? '  return true;'
      : '  return m.unknownTaggedFields === undefined || m.unknownTaggedFields.length === 0;',
    '}',
    '',
  ].join('\n');
}
