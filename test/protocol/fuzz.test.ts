import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { FetchRequestReader } from '../../src/protocol/fetch.ts';
import { ProduceRequestReader } from '../../src/protocol/produce.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { type ApiVector, apiCodec, type RecordVector, recordCodec } from '../support/golden/codecs.ts';
import { readLines } from '../support/golden/vectors.ts';
import { mutate } from '../support/mutate.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';

const MUTATIONS = scaled(8, 1000);

interface Target {
  readonly name: string;
  readonly version: number;
  readonly bytes: Buffer;
  read(r: Reader, version: number): unknown;
  write?(w: Writer, version: number, message: unknown): void;
}

const lines = (name: string) => readLines(fileURLToPath(new URL(`fixtures/golden/${name}`, import.meta.url)));

async function targets(): Promise<Target[]> {
  const all: Target[] = [];
  const produce = new ProduceRequestReader();
  const fetch = new FetchRequestReader();
  for (const line of lines('apis.jsonl.gz')) {
    const { api, type, version, hex } = JSON.parse(line) as ApiVector;
    const { read, write } = await apiCodec(api, type);
    const bytes = Buffer.from(hex, 'hex');
    all.push({ name: `${api} ${type}`, version, bytes, read, write });
    if (type === 'response') continue;
    if (api === 'Produce')
      all.push({ name: 'Produce by hand', version, bytes, read: (r, v) => produce.read(r, v) });
    if (api === 'Fetch')
      all.push({ name: 'Fetch by hand', version, bytes, read: (r, v) => fetch.read(r, v) });
  }
  for (const line of lines('records.jsonl.gz')) {
    const { family, name, version, hex } = JSON.parse(line) as RecordVector;
    const { read, write } = await recordCodec(family, name);
    all.push({ name, version, bytes: Buffer.from(hex, 'hex'), read, write });
  }
  return all;
}

class Found extends Error {}

/** A reader that says so when a count or a position lies past what there is. */
function watched(Base: typeof Reader): typeof Reader {
  const count = (r: Reader, value: number) => {
    if (value > r.remaining) throw new Found(`a count of ${value}, ${r.remaining} bytes left`);
    return value;
  };
  return class Watched extends Base {
    override take(size: number): number {
      const start = super.take(size);
      if (this.position > this.end) throw new Found(`read to ${this.position} of ${this.end}`);
      return start;
    }
    override arrayCount(minimum: number): number {
      return count(this, super.arrayCount(minimum));
    }
    override nullableArrayCount(minimum: number): number {
      return count(this, super.nullableArrayCount(minimum));
    }
    override compactArrayCount(minimum: number): number {
      return count(this, super.compactArrayCount(minimum));
    }
    override compactNullableArrayCount(minimum: number): number {
      return count(this, super.compactNullableArrayCount(minimum));
    }
  };
}

/** Objects, array elements and bytes of a message. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let size = 1;
  for (const inner of Object.values(value)) size += sizeOf(inner) + (Array.isArray(value) ? 1 : 0);
  return size;
}

/** Reads mutated bytes; what is wrong with how that went, if anything. */
function fault(target: Target, ReaderClass: typeof Reader, bytes: Buffer): string | undefined {
  const r = new ReaderClass(Buffer.concat([bytes, Buffer.alloc(64, 0x55)]), 0, bytes.length);
  let message: unknown;
  try {
    message = target.read(r, target.version);
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'MALFORMED') return undefined;
    return `threw ${error}`;
  }
  if (r.position > r.end) return `read to ${r.position} of ${r.end}`;
  // An element takes a byte at least; a struct may have a constant number of structs, and a uuid 22 characters.
  const size = sizeOf(message);
  if (size > 8 * bytes.length + 64) return `made ${size} of ${bytes.length} bytes`;
  try {
    target.write?.(new Writer(), target.version, message);
  } catch (error) {
    // Tagged fields may have arrived out of order, which a writer refuses.
    if (!(error instanceof BroadsheetError && error.code === 'INVALID_ARGUMENT'))
      return `writing threw ${error}`;
  }
  return undefined;
}

function fuzz(all: readonly Target[], Base: typeof Reader, seed: number, mutations: number): string[] {
  const random = new Random(seed);
  const ReaderClass = watched(Base);
  const found: string[] = [];
  for (const target of all) {
    for (let i = 0; i < mutations && found.length < 10; i++) {
      const bytes = mutate(target.bytes, random);
      const problem = fault(target, ReaderClass, bytes);
      if (problem !== undefined) {
        found.push(`${target.name} v${target.version} ${bytes.toString('hex').slice(0, 400)}: ${problem}`);
      }
    }
  }
  return found;
}

/** Canaries: readers with one check missing. */
class UncheckedTake extends Reader {
  override take(size: number): number {
    const start = this.position;
    this.position += size;
    return start;
  }
}

class UncheckedCount extends Reader {
  override arrayCount(): number {
    return Math.max(0, this.int32());
  }
  override compactArrayCount(): number {
    return Math.max(0, this.unsignedVarint() - 1);
  }
}

class UncheckedTag extends Reader {
  override tagEnd(): number {
    return this.unsignedVarint() + this.position;
  }
}

describe('mutated messages', () => {
  it('are read, or refused as MALFORMED', { timeout: 3_600_000 }, async () => {
    expect(fuzz(await targets(), Reader, 20261202, MUTATIONS)).toEqual([]);
  });

  it.each([
    ['UncheckedTake', UncheckedTake],
    ['UncheckedCount', UncheckedCount],
    ['UncheckedTag', UncheckedTag],
  ])('give %s away', async (_name, canary) => {
    expect(fuzz(await targets(), canary, 20261202, 4).length).toBeGreaterThan(0);
  });
});
