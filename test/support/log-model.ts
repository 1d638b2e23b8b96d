/** A log beside a list of batches: random operations on both, which must agree. */
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Log, LogEngine, OpenOptions } from '../../src/log/log.ts';
import { batch, readWarm, scratch } from './logs.ts';
import type { Random } from './random.ts';

interface ModelBatch {
  readonly base: number;
  readonly last: number;
  readonly maxTimestamp: number;
  readonly transactional: boolean;
  readonly producerId: number;
  readonly bytes: Uint8Array;
}

interface ModelSegment {
  readonly base: number;
  readonly createdAt: number;
  batches: ModelBatch[];
}

/** toBe, without its cost: it runs a million times. */
function same(actual: unknown, wanted: unknown, context = ''): void {
  if (!Object.is(actual, wanted)) expect(actual, context).toBe(wanted);
}

const size = (batches: readonly ModelBatch[]) => batches.reduce((sum, one) => sum + one.bytes.length, 0);
const name = (base: number, suffix: string) => String(base).padStart(20, '0') + suffix;
const text = (bytes: Uint8Array | undefined) =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString('hex');

export class LogModel {
  readonly #random: Random;
  readonly #root = scratch(true);
  readonly #options: OpenOptions;
  /** Rolls by index fullness are not predicted, only seen. */
  readonly #predictsRolls: boolean;
  readonly #make: () => LogEngine;
  #engine: LogEngine;
  #log!: Log;
  #segments: ModelSegment[] = [];
  #start = 0;
  #now = 1000;
  #copies = 0;
  reopens = 0;
  cuts = 0;
  exchanges = 0;

  constructor(make: () => LogEngine, random: Random, options: OpenOptions, predictsRolls: boolean) {
    this.#make = make;
    this.#engine = make();
    this.#random = random;
    this.#options = options;
    this.#predictsRolls = predictsRolls;
  }

  async begin(): Promise<void> {
    this.#log = await this.#engine.open(join(this.#root, 'log-0'), this.#options);
    this.#segments = [{ base: 0, createdAt: this.#now, batches: [] }];
    this.#check();
  }

  async step(): Promise<void> {
    const kind = this.#random.int(1000);
    if (kind < 450) this.#append();
    else if (kind < 850) await this.#read();
    else if (kind < 970) await this.#ask();
    else if (kind < 979) this.#roll();
    else if (kind < 981) await this.#retain();
    else if (kind < 983) await this.#clean();
    else if (kind < 987) await this.#log.flush();
    else if (kind < 991) this.#moveStart();
    else if (kind < 995) await this.#closeAndOpen();
    else if (kind < 999) await this.#kill();
    else this.#now += this.#random.int(3000);
  }

  async end(): Promise<void> {
    await this.#engine.close();
  }

  get #all(): ModelBatch[] {
    return this.#segments.flatMap((segment) => segment.batches);
  }

  get #active(): ModelSegment {
    return this.#segments[this.#segments.length - 1]!;
  }

  get #endOffset(): number {
    for (let i = this.#segments.length - 1; i >= 0; i--) {
      const { batches, base } = this.#segments[i]!;
      if (batches.length > 0) return batches[batches.length - 1]!.last + 1;
      if (i === this.#segments.length - 1 && base > 0) return base;
    }
    return this.#segments[0]!.base;
  }

  #check(): void {
    same(this.#log.logEndOffset, this.#endOffset);
    same(this.#log.writtenOffset, this.#endOffset);
    same(this.#log.logStartOffset, this.#start);
    same(
      this.#log.sizeInBytes,
      this.#segments.reduce((sum, one) => sum + size(one.batches), 0),
    );
    same(this.#log.segmentBaseOffsets().join(), this.#segments.map((segment) => segment.base).join());
    same(this.#log.activeSegmentBaseOffset, this.#active.base);
  }

  #mustRoll(bytes: number, maxTimestamp: number): boolean {
    const { batches, createdAt } = this.#active;
    if (batches.length === 0) return false;
    if (size(batches) + bytes > this.#options.segmentBytes) return true;
    const first = batches[0]!.maxTimestamp;
    return (first >= 0 ? maxTimestamp - first : this.#now - createdAt) > this.#options.segmentMs;
  }

  #append(): void {
    const count = 1 + this.#random.int(4);
    const taken: (() => void)[] = [];
    for (let i = 0; i < count; i++) {
      const recordCount = 1 + this.#random.int(4);
      this.#now += this.#random.int(20);
      const transactional = this.#random.int(200) === 0;
      const producerId = this.#random.int(3) === 0 ? this.#random.int(5) : -1;
      const maxTimestamp = this.#random.int(50) === 0 ? -1 : this.#now - this.#random.int(200);
      const bytes = batch({
        recordCount,
        maxTimestamp,
        producerId,
        attributes: transactional ? 0x10 : 0,
        payload: new Uint8Array(this.#random.int(this.#random.int(10) === 0 ? 900 : 150)).fill(
          this.#random.int(256),
        ),
      });
      const base = this.#endOffset;
      const { baseOffset, rolled } = this.#log.stage(bytes, 0, bytes.length, 3, this.#now);
      same(baseOffset, base);
      if (this.#predictsRolls) same(rolled, this.#mustRoll(bytes.length, maxTimestamp));
      if (rolled) this.#segments.push({ base, createdAt: this.#now, batches: [] });
      const last = base + recordCount - 1;
      this.#active.batches.push({ base, last, maxTimestamp, transactional, producerId, bytes });
      taken.push(() => same(Buffer.from(bytes.buffer).readBigInt64BE(0), BigInt(base)));
    }
    let done = 0;
    this.#engine.commit((log, error) => {
      same(log, this.#log);
      expect(error).toBeUndefined();
      done++;
    });
    same(done, 1);
    for (const check of taken) check();
    this.#check();
  }

  /** A bound that a reader may have: the end of some batch. */
  #bound(): number {
    const all = this.#all;
    return this.#random.int(3) === 0 && all.length > 0 ? this.#random.pick(all).last + 1 : this.#endOffset;
  }

  #offset(): number {
    return this.#random.int(this.#endOffset + 3) - (this.#random.int(50) === 0 ? 1 : 0);
  }

  async #read(): Promise<void> {
    const offset = this.#offset();
    const upTo = this.#bound();
    const maxBytes = this.#random.int(10) === 0 ? this.#random.int(60) : this.#random.int(3000);
    const minOne = this.#random.int(2) === 0;
    const result = await readWarm(this.#log, offset, maxBytes, upTo, minOne);
    const context = `read(${offset}, ${maxBytes}, ${upTo}, ${minOne})`;
    if (offset < this.#start || offset > this.#endOffset) {
      same(result.kind, 'out-of-range', context);
      return;
    }
    const holds = (one: ModelBatch) => one.last >= offset && one.last < upTo;
    const segment =
      offset < upTo ? this.#segments.find((one) => one.batches.some((b) => b.last >= offset)) : undefined;
    const wanted = segment?.batches.filter(holds) ?? [];
    const length = minOne && wanted.length > 0 ? Math.max(maxBytes, wanted[0]!.bytes.length) : maxBytes;
    const bytes = Buffer.concat(wanted.map((one) => one.bytes)).subarray(0, length);
    if (bytes.length === 0) {
      same(result.kind, 'empty', context);
      return;
    }
    same(result.kind, 'range', context);
    if (result.kind !== 'range') return;
    const file = readFileSync(join(this.#log.dir, name(segment!.base, '.log')));
    const { position } = result.range;
    same(result.range.length, bytes.length, context);
    same(bytes.equals(file.subarray(position, position + bytes.length)), true, context);
  }

  async #ask(): Promise<void> {
    const offset = Math.max(0, this.#offset());
    const upTo = this.#bound();
    const target = this.#now - this.#random.int(2000);
    const from = this.#all.filter((one) => one.last >= offset && one.base < upTo);
    const whole = from.filter((one) => one.last < upTo);
    switch (this.#random.int(5)) {
      case 0: {
        const maxBytes = this.#random.int(3000);
        const wanted: Uint8Array[] = [];
        let bytes = 0;
        for (const one of whole) {
          if (wanted.length > 0 && bytes + one.bytes.length > maxBytes) break;
          wanted.push(one.bytes);
          bytes += one.bytes.length;
          if (bytes >= maxBytes) break;
        }
        expect(text(await this.#log.readBatches(offset, maxBytes, upTo))).toBe(text(Buffer.concat(wanted)));
        break;
      }
      case 1:
        expect(text(await this.#log.findBatchByTimestamp(target, offset, upTo))).toBe(
          text(whole.find((one) => one.maxTimestamp >= target)?.bytes),
        );
        break;
      case 2: {
        const largest = Math.max(...whole.map((one) => one.maxTimestamp));
        expect(text(await this.#log.findBatchByMaxTimestamp(offset, upTo))).toBe(
          text(whole.find((one) => one.maxTimestamp === largest)?.bytes),
        );
        break;
      }
      case 3: {
        const producersOnly = this.#random.int(2) === 0;
        const infos = await this.#log.scanBatches(offset, upTo, producersOnly);
        const wanted = from.filter((one) => !producersOnly || one.producerId >= 0);
        expect(
          infos.map((info) => [info.baseOffset, info.lastOffset, info.producerId, info.sizeInBytes]),
        ).toEqual(wanted.map((one) => [one.base, one.last, one.producerId, one.bytes.length]));
        break;
      }
      default:
        await this.#log.warm(offset, 5000);
    }
  }

  #roll(): void {
    this.#log.roll(this.#now);
    if (this.#active.base < this.#endOffset)
      this.#segments.push({ base: this.#endOffset, createdAt: this.#now, batches: [] });
    this.#check();
  }

  #moveStart(): void {
    const offset = this.#start + this.#random.int(Math.min(50, this.#endOffset - this.#start + 1));
    this.#log.setLogStartOffset(offset);
    this.#start = offset;
    this.#check();
  }

  /** The first segments leave the log. */
  async #retain(): Promise<void> {
    await this.#log.flush();
    const count = this.#random.int(Math.min(this.#segments.length, 4));
    if (count === 0) return;
    const gone = this.#segments.splice(0, count);
    const names = await this.#log.replaceSegments(
      gone.map((one) => one.base),
      [],
    );
    for (const each of names) if (this.#random.int(2) === 0) rmSync(join(this.#log.dir, each));
    this.#start = Math.max(this.#start, this.#segments[0]!.base);
    this.exchanges++;
    this.#check();
  }

  /** Some batches of closed segments in a row are left, in one segment; or a crash comes in between. */
  async #clean(): Promise<void> {
    await this.#log.flush();
    const closed = this.#segments.length - 1;
    if (closed === 0) return;
    const at = this.#random.int(closed);
    const group = this.#segments.slice(at, at + 1 + this.#random.int(Math.min(closed - at, 4)));
    const kept = group.flatMap((one) => one.batches).filter(() => this.#random.int(3) === 0);
    const { base, createdAt } = group[0]!;
    const moment = this.#random.int(6);
    const suffix = moment === 0 ? '.swap' : '.cleaned';
    const write = (kind: string, bytes: Uint8Array) =>
      writeFileSync(join(this.#log.dir, name(base, kind + suffix)), bytes);
    write('.log', Buffer.concat(kept.map((one) => one.bytes)));
    for (const index of ['.index', '.timeindex']) write(index, new Uint8Array(0));
    this.exchanges++;
    if (moment > 1) {
      const bases = group.map((one) => one.base);
      await this.#log.replaceSegments(bases, [base]);
      this.#segments.splice(at, group.length, { base, createdAt, batches: kept });
      this.#check();
      return;
    }
    if (moment === 0) {
      // Completed: for the segments up to the last offset that is left.
      const last = kept.at(-1)?.last ?? -1;
      const covered = group.filter((one, i) => i === 0 || one.base <= last);
      this.#segments.splice(at, covered.length, { base, createdAt, batches: kept });
    }
    await this.#kill();
  }

  async #open(dir: string, clean: boolean, recoveryPoint: number): Promise<void> {
    this.#engine = this.#make();
    this.#log = await this.#engine.open(dir, {
      ...this.#options,
      cleanShutdown: clean,
      recoveryPoint,
      logStartOffset: this.#start,
      now: this.#now,
    });
    this.#segments[this.#segments.length - 1] = { ...this.#active, createdAt: this.#now };
    this.reopens++;
  }

  async #closeAndOpen(): Promise<void> {
    await this.#engine.close();
    same(this.#log.flushedOffset, this.#endOffset);
    const { dir } = this.#log;
    const harmed = this.#random.int(3) === 0 && this.#harmIndex(dir, true);
    await this.#open(dir, true, this.#endOffset);
    expect(this.#log.recovery.bytesTruncated).toBe(0);
    if (!harmed)
      expect(this.#log.recovery).toEqual({ bytesScanned: 0, bytesTruncated: 0, indexesRebuilt: 0 });
    this.#check();
  }

  /** The process dies: what was written is there, what was in memory is not, and a torn tail may follow. */
  async #kill(): Promise<void> {
    const flushed = this.#log.flushedOffset;
    const dir = join(this.#root, `log-${++this.#copies}`);
    cpSync(this.#log.dir, dir, { recursive: true });
    await this.#engine.close();
    rmSync(this.#log.dir, { recursive: true });
    const torn = this.#random.int(3) === 0 ? this.#tear(dir, flushed) : 0;
    if (this.#random.int(2) === 0) this.#harmIndex(dir, false);
    await this.#open(dir, false, flushed);
    expect(this.#log.recovery.bytesTruncated).toBe(torn);
    expect(this.#log.recovery.fault === undefined).toBe(torn === 0);
    this.#check();
  }

  /** Damages the log at or past the recovery point; returns how many bytes recovery has to cut. */
  #tear(dir: string, flushed: number): number {
    const at = this.#segments.findIndex((one) => one.batches.some((b) => b.last >= flushed));
    if (at < 0 || this.#random.int(2) === 0) {
      const path = join(dir, name(this.#active.base, '.log'));
      const junk = 1 + this.#random.int(200);
      writeFileSync(path, new Uint8Array(junk).fill(this.#random.int(2) * 0xab), { flag: 'a' });
      return junk;
    }
    const index = at + this.#random.int(this.#segments.length - at);
    const segment = this.#segments[index]!;
    const fresh = segment.batches.filter((one) => one.last >= flushed);
    if (fresh.length === 0) return 0;
    const victim = this.#random.pick(fresh);
    const position = size(segment.batches.slice(0, segment.batches.indexOf(victim)));
    const path = join(dir, name(segment.base, '.log'));
    const bytes = readFileSync(path);
    // Only a cut at the very end of the log is one: within it a shorter segment is whole, with a gap after it.
    if (this.#random.int(2) === 0 && index === this.#segments.length - 1) {
      truncateSync(path, position + 1 + this.#random.int(victim.bytes.length - 1));
    } else {
      // Anything but the leader epoch, which no checksum covers.
      const byte =
        position + (this.#random.int(2) === 0 ? 16 : 21 + this.#random.int(victim.bytes.length - 21));
      bytes[byte]! ^= 0x40;
      writeFileSync(path, bytes);
    }
    this.cuts++;
    const after = this.#segments.slice(index + 1).reduce((sum, one) => sum + size(one.batches), 0);
    const cut = statSync(path).size - position + after;
    segment.batches = segment.batches.slice(0, segment.batches.indexOf(victim));
    this.#segments.length = index + 1;
    // What readers might see cannot begin past the end: the log is then empty and begins there.
    if (this.#endOffset < this.#start) {
      const left = size(this.#all);
      this.#segments = [{ base: this.#start, createdAt: this.#now, batches: [] }];
      return cut + left;
    }
    return cut;
  }

  /** Removes, cuts, garbles or zero-extends the index of some segment. */
  #harmIndex(dir: string, clean: boolean): boolean {
    const names = readdirSync(dir).filter((one) => one.endsWith('index'));
    if (names.length === 0) return false;
    const path = join(dir, this.#random.pick(names));
    if (!existsSync(path)) return false;
    const bytes = readFileSync(path);
    switch (this.#random.int(5)) {
      case 0:
        rmSync(path);
        break;
      case 1:
        // After a clean stop a time index that ends early with a whole entry can't be told from a right one.
        truncateSync(
          path,
          clean ? Math.max(0, bytes.length - 1 - this.#random.int(7)) : this.#random.int(bytes.length + 1),
        );
        break;
      case 2:
        writeFileSync(path, Buffer.concat([bytes, Buffer.alloc(12 * 8 * this.#random.int(100))]));
        break;
      case 3:
        writeFileSync(path, Buffer.alloc(bytes.length));
        break;
      default:
        for (let i = 0; i < bytes.length; i++) bytes[i] = this.#random.int(256);
        writeFileSync(path, bytes);
    }
    return true;
  }
}
