import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  byteCount,
  escaped,
  keyValue,
  partitionList,
  position,
  topicPartitions,
} from '../../src/cli/arguments.ts';
import { bytesText, Progress, table } from '../../src/cli/output.ts';
import { pieces } from '../../src/cli/record-input.ts';

describe('arguments', () => {
  it('name partitions', () => {
    expect(topicPartitions('orders')).toEqual({ topic: 'orders', partitions: undefined });
    expect(topicPartitions('orders:3,0-2,1')).toEqual({ topic: 'orders', partitions: [0, 1, 2, 3] });
    for (const bad of ['', 'x', '3-1', '1,', '-1', '0-9999999999', '0-999999999']) {
      expect(() => partitionList(bad), bad).toThrow();
    }
  });

  it('name positions', () => {
    const now = Date.parse('2026-01-31T12:00:00Z');
    expect(position('beginning')).toEqual({ kind: 'earliest' });
    expect(position('end')).toEqual({ kind: 'latest' });
    expect(position('0')).toEqual({ kind: 'offset', offset: 0 });
    expect(position('-5')).toEqual({ kind: 'last', count: 5 });
    expect(position('@17')).toEqual({ kind: 'time', timestamp: 17 });
    expect(position('90m', now)).toEqual({ kind: 'time', timestamp: now - 5_400_000 });
    expect(position('2026-01-31T12:00:00Z')).toEqual({ kind: 'time', timestamp: now });
    for (const bad of ['', 'soon', '1.5', '2026-13-01', '9999999999999999', '5y']) {
      expect(() => position(bad), bad).toThrow();
    }
  });

  it('have escapes', () => {
    expect(escaped('a\\t\\n\\\\\\x00\\xfFé')).toEqual(
      Buffer.concat([Buffer.from('a\t\n\\\0'), Buffer.from([0xff]), Buffer.from('é')]),
    );
    expect(escaped('')).toHaveLength(0);
    for (const bad of ['\\', '\\q', '\\xf', '\\xgg']) expect(() => escaped(bad), bad).toThrow();
  });

  it('have units and values', () => {
    expect([byteCount('7'), byteCount('2k'), byteCount('1M')]).toEqual([7, 2048, 2 ** 20]);
    for (const bad of ['', '0', '-1', '1t', 'k']) expect(() => byteCount(bad), bad).toThrow();
    expect([...keyValue('a=b=c', keyValue('x='))]).toEqual([
      ['x', ''],
      ['a', 'b=c'],
    ]);
    expect(() => keyValue('=b')).toThrow();
  });
});

describe('input', () => {
  async function cut(chunks: readonly Buffer[], by: Buffer | number): Promise<string[]> {
    const found: string[] = [];
    async function* stream() {
      yield* chunks;
    }
    for await (const piece of pieces(stream(), by)) found.push(piece.toString('latin1'));
    return found;
  }

  it('is cut the same however it arrives', async () => {
    const text = fc
      .array(fc.constantFrom('a', ';', '-', '\n'), { maxLength: 60 })
      .map((each) => each.join(''));
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom('\n', ';-', '--', ';-;'), sizes, async (input, by, steps) => {
        const chunks: Buffer[] = [];
        for (let at = 0, n = 0; at < input.length; n++) {
          const size = steps[n % steps.length]!;
          chunks.push(Buffer.from(input.slice(at, at + size)));
          at += size;
        }
        const expected = input.split(by);
        if (expected.at(-1) === '') expected.pop();
        expect(await cut(chunks, Buffer.from(by))).toEqual(expected);
        const whole = steps[0]!;
        expect(await cut(chunks, whole)).toEqual(input.match(new RegExp(`[^]{1,${whole}}`, 'g')) ?? []);
        expect(await cut(chunks, Buffer.alloc(0))).toEqual(input === '' ? [] : [input]);
      }),
    );
  });
});

describe('output', () => {
  it('is a table, with numbers flush right', () => {
    expect(
      table(
        ['NAME', 'N', 'WHAT'],
        [
          ['a', 5, null],
          ['bcdef', 1000, 'x'],
          ['', null, undefined],
        ],
      ),
    ).toBe('NAME      N  WHAT\na         5  -\nbcdef  1000  x\n          -  -\n');
    expect(table(['NAME'], [])).toBe('NAME\n');
  });

  it('counts bytes', () => {
    expect([0, 1023, 1024, 1.5 * 2 ** 30].map(bytesText)).toEqual(['0 B', '1023 B', '1.0 KiB', '1.5 GiB']);
  });

  it('shows progress on a terminal after a second, over and over, and takes it away', () => {
    const written: string[] = [];
    const stream = { isTTY: true, write: (text: string) => written.push(text) > 0 };
    let now = 0;
    let text = 'much done';
    const progress = new Progress(
      () => text,
      stream as unknown as NodeJS.WriteStream,
      () => now,
    );
    for (now = 0; now < 1000; now += 100) progress.tick();
    expect(written).toEqual([]);
    now = 1000;
    progress.tick();
    text = 'all';
    now = 1100;
    progress.tick();
    now = 1200;
    progress.tick();
    progress.clear();
    expect(written).toEqual(['\rmuch done', '\rall      ', '\r   \r']);
  });
});
