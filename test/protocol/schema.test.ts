import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formOf, parseMessage } from '../../scripts/generate/schema.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const message = (fields: unknown[], more: object = {}) =>
  parseMessage({ name: 'Test', validVersions: '0-3', flexibleVersions: '2+', fields, ...more });

describe('schemas', () => {
  it('say what a field is in each version', () => {
    const tagged = {
      name: 'Rack',
      type: 'string',
      versions: '1+',
      nullableVersions: '2+',
      taggedVersions: '3+',
      tag: 0,
    };
    const field = message([tagged])!.root.fields[0]!;
    expect(field.name).toBe('rack');
    expect([0, 1, 2, 3].map((version) => formOf(field, version))).toEqual([
      undefined,
      { tagged: false, nullable: false, flexible: false },
      { tagged: false, nullable: true, flexible: true },
      { tagged: true, nullable: true, flexible: true },
    ]);
    expect(message([], { validVersions: 'none' })).toBeUndefined();
  });

  it.each<[string, unknown[], object, RegExp]>([
    [
      'a struct that contains itself',
      [{ name: 'A', type: 'Node', versions: '0+' }],
      {
        commonStructs: [
          { name: 'Node', versions: '0+', fields: [{ name: 'Next', type: '[]Node', versions: '0+' }] },
        ],
      },
      /contains itself/,
    ],
    ['a struct that is not there', [{ name: 'A', type: 'Node', versions: '0+' }], {}, /no struct Node/],
    ['versions that are none', [{ name: 'A', type: 'int8', versions: '1..2' }], {}, /versions "1\.\.2"/],
    ['a tag without versions', [{ name: 'A', type: 'int8', versions: '0+', tag: 1 }], {}, /tag/],
    [
      'null as the default of a number',
      [{ name: 'A', type: 'int8', versions: '0+', default: 'null' }],
      {},
      /null/,
    ],
    [
      'a default that is no number',
      [{ name: 'A', type: 'int8', versions: '0+', default: 'x' }],
      {},
      /default "x"/,
    ],
    ['an end that is open', [], { validVersions: '0+' }, /without an end/],
  ])('are refused with %s', (_what, fields, more, expected) => {
    expect(() => message(fields, more)).toThrow(expected);
  });

  it('give the same output again', () => {
    const folder = `${root}/src/protocol/generated`;
    const digest = () => {
      const hash = createHash('sha256');
      for (const name of fs.readdirSync(folder).sort())
        hash.update(name).update(fs.readFileSync(`${folder}/${name}`));
      return hash.digest('hex');
    };
    const before = digest();
    execFileSync(process.execPath, ['scripts/generate.js'], { cwd: root });
    expect(digest()).toBe(before);
  });
});
