/** dist/load.js: what V8 compiled is kept for the next process, and is never needed. In processes, since V8 remembers code. */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const LOADER = fileURLToPath(new URL('../../dist/load.js', import.meta.url));
/** Says whether it was asked to keep, and what it computes; long enough for a cache to harm. */
const MAIN = (word: string) => `
let keep;
exports.keepCompiledCodeBy = (how) => { keep = how; };
${Array.from({ length: 200 }, (_, i) => `function f${i}(x) { return x === ${i} ? '${word}' : f${(i + 1) % 200}(x); }`).join('\n')}
exports.runCommand = async () => {
  console.log(JSON.stringify({ asked: keep !== undefined, word: f0(199), where: __filename }));
  if (keep) await keep();
};
`;

describe('the loader of the package', () => {
  let root: string;
  let dist: string;
  let cache: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'broadsheet-load-'));
    dist = join(root, 'dist');
    cache = join(root, '.cache/code');
    mkdirSync(dist);
    cpSync(LOADER, join(dist, 'load.js'));
    writeFileSync(join(dist, 'package.json'), '{ "type": "commonjs" }');
    writeFileSync(join(dist, 'main.js'), MAIN('one'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const run = (...flags: string[]) => {
    const script = `require(${JSON.stringify(join(dist, 'load.js'))}).load('main.js', 'start').runCommand();`;
    const text = execFileSync(process.execPath, [...flags, '-e', script]).toString();
    const { where, ...rest } = JSON.parse(text) as { asked: boolean; word: string; where: string };
    expect(where).toBe(join(dist, 'main.js'));
    return rest;
  };
  const kept = () => readdirSync(cache).map((name) => join(cache, name));

  it('keeps what was compiled once, and takes it from then on', () => {
    expect(run()).toEqual({ asked: true, word: 'one' });
    expect(kept()).toHaveLength(1);
    expect(run()).toEqual({ asked: false, word: 'one' });
    expect(run()).toEqual({ asked: false, word: 'one' });
  });

  it('does not take it for other code of the same length, nor for other flags', () => {
    run();
    writeFileSync(join(dist, 'main.js'), MAIN('two'));
    utimesSync(join(dist, 'main.js'), 1, 1);
    expect(run()).toEqual({ asked: true, word: 'two' });
    expect(run()).toEqual({ asked: false, word: 'two' });
    expect(run('--no-opt')).toEqual({ asked: true, word: 'two' });
  });

  it('makes another of one that is damaged', () => {
    run();
    const [path] = kept() as [string];
    const whole = readFileSync(path);
    const digest = createHash('sha1').update(whole).digest()[0]!;
    const flipped = Buffer.from(whole);
    flipped[64 + digest]! ^= 0x10;
    flipped[whole.length - 100]! ^= 1;
    for (const bytes of [Buffer.alloc(0), randomBytes(1000), whole.subarray(0, 5000), flipped]) {
      writeFileSync(path, bytes);
      expect(run()).toEqual({ asked: true, word: 'one' });
      expect(run()).toEqual({ asked: false, word: 'one' });
    }
    // Of its own length: V8 does not make caches of the same one each time.
    truncateSync(path, statSync(path).size - 8);
    expect(run()).toEqual({ asked: true, word: 'one' });
  });

  it('goes without where the package cannot be written to', () => {
    writeFileSync(join(root, '.cache'), '');
    expect(run()).toEqual({ asked: true, word: 'one' });
    expect(run()).toEqual({ asked: true, word: 'one' });
  });

  it('leaves code to the `require` of a context of its own, as test runners have them', () => {
    const script = `
      const context = require('vm').createContext({ require, process, URL, console, setTimeout });
      const text = require('fs').readFileSync(${JSON.stringify(join(dist, 'load.js'))}, 'utf8');
      const wrapper = new (require('vm').Script)('(function (exports, require, __filename) {' + text + '})').runInContext(context);
      const loader = {};
      wrapper(loader, require, ${JSON.stringify(join(dist, 'load.js'))});
      const main = loader.load('main.js', 'library');
      console.log(main === require(${JSON.stringify(join(dist, 'main.js'))}));`;
    expect(execFileSync(process.execPath, ['-e', script]).toString()).toBe('true\n');
  });
});
