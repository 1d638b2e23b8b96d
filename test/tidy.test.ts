import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Files that git tracks, or would if they were added. */
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /^(native|src|test|bench|scripts|docs|\.ci)\/|^[^/]+$/.test(file));
const code = files.filter((file) => /\.(ts|js|cc|h|c)$/.test(file));
const read = (file: string) => readFileSync(join(root, file), 'utf8');

const MAX_LINES = 600;

/** Imports point to a higher rank only, or stay in their own room. */
const RANKS: Record<string, number> = {
  load: -2,
  main: -1,
  cli: 0,
  index: 1,
  broker: 2,
  group: 3,
  transaction: 3,
  client: 3,
  metadata: 4,
  log: 5,
  config: 6,
  protocol: 6,
  native: 6,
  runtime: 7,
};

function room(file: string): string {
  return file
    .replace(/^src\//, '')
    .replace(/\.ts$/, '')
    .split('/')[0]!;
}

function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((m) =>
    normalize(join(dirname(file), m[1]!)),
  );
}

function badImports(file: string, text: string): string[] {
  const from = room(file);
  return importsOf(file, text)
    .filter((target) => {
      const to = room(target);
      if (to === from) return false;
      // The client speaks to brokers over the wire: of the broker's own code it may use the protocol only.
      if (from === 'client') return !['protocol', 'runtime'].includes(to);
      if (to === 'client') return from !== 'cli';
      return !((RANKS[from] ?? -1) < (RANKS[to] ?? -1));
    })
    .map((target) => `${file} imports ${target}`);
}

// Written so that this file does not match itself.
const MARKERS = new RegExp(
  ['TO' + 'DO', 'FIX' + 'ME', 'XX' + 'X', 'HA' + 'CK'].map((m) => `\\b${m}\\b`).join('|'),
);
const SILENCED = new RegExp(
  [
    '@ts-' + '(ignore|expect-error|nocheck)',
    'biome-' + 'ignore',
    '\\bas any\\b',
    '\\b(it|test|describe|suite|bench)(\\.\\w+)*\\.(skip|only|todo)' + '\\(',
    'skip' + 'If',
  ].join('|'),
);

describe('tidy', () => {
  it('sees the files', () => {
    expect(code.length).toBeGreaterThan(10);
  });

  it('keeps every file short enough to hold in the head', () => {
    const long = code
      .map((f) => [f, read(f).split('\n').length] as const)
      .filter(([, lines]) => lines > MAX_LINES);
    expect(long).toEqual([]);
  });

  it('lets imports point down only', () => {
    const sources = files.filter((f) => f.startsWith('src/') && f.endsWith('.ts'));
    expect(sources.map(room).filter((r) => !(r in RANKS))).toEqual([]);
    expect(sources.flatMap((f) => badImports(f, read(f)))).toEqual([]);
  });

  it('would notice an import that points up', () => {
    expect(badImports('src/log/x.ts', "import { b } from '../broker/broker.ts';")).toHaveLength(1);
    expect(badImports('src/protocol/x.ts', "import type { b } from '../log/log.ts';")).toHaveLength(1);
    expect(badImports('src/broker/x.ts', "import { c } from '../client/client.ts';")).toHaveLength(1);
    expect(badImports('src/broker/x.ts', "import { b } from '../log/log.ts';")).toEqual([]);
  });

  it('leaves no marker of unfinished work and silences no check', () => {
    const found = code.flatMap((f) =>
      read(f)
        .split('\n')
        .flatMap((line, i) =>
          MARKERS.test(line) || SILENCED.test(line) ? [`${f}:${i + 1} ${line.trim()}`] : [],
        ),
    );
    expect(found).toEqual([]);
  });

  it('lets only the seam call the kernel about files, and only the bindings see N-API', () => {
    const calls =
      /(?<![\w.>:])(::)?(openat|pread|pwrite|preadv2?|pwritev2?|writev|fdatasync|fsync|ftruncate|fallocate|renameat2?|unlinkat|mkdirat|sendfile|mmap|munmap|posix_fadvise|sync_file_range|flock|fcntl64)\(/;
    const bad = code
      .filter((f) => f.startsWith('native/'))
      .flatMap((f) => {
        const text = read(f);
        const problems: string[] = [];
        if (
          !/native\/file\w*\.(cc|h)$/.test(f) &&
          text.split('\n').some((l) => !l.trim().startsWith('//') && calls.test(l))
        )
          problems.push(`${f} calls the kernel about files`);
        if (
          !/(_binding|bindings|napi_util|addon|environment)\.(cc|h)$/.test(f) &&
          /#include <napi\.h>|#include <node_api/.test(text)
        )
          problems.push(`${f} sees N-API`);
        return problems;
      });
    expect(bad).toEqual([]);
  });

  it('names no machine of ours', () => {
    const own = files.filter((f) => f !== 'test/tidy.test.ts' && !f.endsWith('package-lock.json'));
    expect(own.filter((f) => /(^|[\s'"`(=])\/(work|farm|root)\//m.test(read(f)))).toEqual([]);
  });

  it('has no script that npm runs unasked before or after another', () => {
    const names = Object.keys(JSON.parse(read('package.json')).scripts);
    // A script called prebuild once compiled the addon anew with every `npm run build`.
    expect(
      names.filter((name) => /^(pre|post)/.test(name) && !['prepare', 'prepublishOnly'].includes(name)),
    ).toEqual([]);
  });
});
