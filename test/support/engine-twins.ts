/**
 * Two engines side by side, each with a log in a folder of its own: seeded operations on both, whose answers must be the
 * same field by field and whose files the same byte for byte. Between two openings the files are harmed alike.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { BatchInfo, Log, LogEngine, OpenOptions, ReadResult } from '../../src/log/log.ts';
import { COMPRESSIONS } from '../../src/protocol/compression.ts';
import { BATCH_HEADER_BYTES, patchCrc } from '../../src/protocol/records/batch.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import type { EngineUnderTest } from './engines.ts';
import { batch, readWarm, scratch } from './logs.ts';
import type { Random } from './random.ts';

const { EIO, ENOSPC, EMFILE } = constants.errno;
const FOLDER = /\/\S*\/(?=\d{20}\.)/g;
const ODD_TIMES = [-1, 0, 5, 2 ** 53 - 1, -(2 ** 40)];

interface Twin {
  readonly under: EngineUnderTest;
  engine: LogEngine;
  log: Log;
  dir: string;
}

type Outcome =
  | { readonly is: unknown }
  | { readonly code: string; readonly errno: number; readonly says?: string };

/** The name of each file and its bytes. */
function filesOf(dir: string): Map<string, Buffer> {
  return new Map(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name))]));
}

function bytesOf(result: ReadResult): unknown {
  if (result.kind !== 'range') return result.kind;
  const { source, segment, position, length } = result.range;
  const held = source.hold(segment);
  const bytes = Buffer.alloc(length);
  // A range may reach past the end of a file that was cut from outside.
  const got = readSync(held.fd, bytes, 0, length, position);
  held.release();
  return { position, length, bytes: bytes.subarray(0, got).toString('hex') };
}

/** Where the batches of a sound segment begin. */
function positionsOf(segment: Buffer): number[] {
  const positions: number[] = [];
  for (let at = 0; at + BATCH_HEADER_BYTES <= segment.length; ) {
    positions.push(at);
    const size = segment.readInt32BE(at + 8) + 12;
    if (size < BATCH_HEADER_BYTES) break;
    at += size;
  }
  return positions;
}

/** Whether offsets do not ascend over the batches that begin at these positions. */
function isDisordered(segment: Buffer, positions: readonly number[]): boolean {
  let last = -1n;
  for (const at of positions) {
    if (at + BATCH_HEADER_BYTES > segment.length) return false;
    const base = segment.readBigInt64BE(at);
    if (base <= last) return true;
    last = base + BigInt(segment.readInt32BE(at + 23));
  }
  return false;
}

export class EngineTwins {
  readonly #random: Random;
  #options: OpenOptions;
  readonly #twins: Twin[];
  #now = 10_000;
  #copies = 0;
  #pristine = true;
  readonly counts = {
    batches: 0,
    reads: 0,
    openings: 0,
    refused: 0,
    truncated: 0,
    rebuilt: 0,
    faults: 0,
    left: 0,
  };

  constructor(random: Random, engines: readonly EngineUnderTest[], options: OpenOptions) {
    this.#random = random;
    this.#options = options;
    this.#twins = engines.map((under) => {
      const engine = under.make();
      return { under, engine, log: undefined as unknown as Log, dir: join(scratch(true), 't-0') };
    });
  }

  async begin(): Promise<void> {
    await this.#openBoth(this.#options);
  }

  async end(): Promise<void> {
    for (const { engine } of this.#twins) await engine.close();
    if (this.#pristine) this.#sameFiles();
  }

  async step(): Promise<void> {
    const kind = this.#random.int(1000);
    if (kind < 500) this.#append();
    else if (kind < 700) await this.#read();
    else if (kind < 880) await this.#ask();
    else if (kind < 900) await this.#segmentsLeave();
    else if (kind < 915) this.#roll();
    else if (kind < 930) await this.#flush();
    else if (kind < 940) this.#moveStart();
    else if (kind < 950) this.#setOptions();
    else if (kind < 960) await this.#failToWrite();
    else if (kind < 965) await this.#rename();
    else if (kind < 975 || this.#twins[0]!.log.offline !== undefined) await this.#reopen(true);
    else if (kind < 990) await this.#reopen(false);
    else this.#now += this.#random.int(5000);
    this.#sameState();
  }

  async #both(ask: (twin: Twin) => unknown): Promise<Outcome> {
    const outcomes: Outcome[] = [];
    for (const twin of this.#twins) {
      try {
        outcomes.push({ is: await ask(twin) });
      } catch (error) {
        if (!(error instanceof BroadsheetError)) throw error;
        const { code, errno } = error;
        // What the operating system says is worded by it or by libuv. Files are named as they were opened.
        const says = code === 'OFFLINE' || errno !== 0 ? undefined : error.message.replaceAll(FOLDER, '');
        outcomes.push({ code, errno, ...(says === undefined ? {} : { says }) });
      }
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
    return outcomes[0]!;
  }

  #sameState(): void {
    const [first, second] = this.#twins.map(({ log }) => ({
      ends: [log.logStartOffset, log.logEndOffset, log.writtenOffset],
      active: log.activeSegmentBaseOffset,
      size: log.sizeInBytes,
      offline: log.offline?.code,
      segments: log.segmentBaseOffsets(),
    }));
    expect(second).toEqual(first);
  }

  #sameFiles(): void {
    const [first, second] = this.#twins.map(({ dir }) => filesOf(dir));
    expect([...second!.keys()]).toEqual([...first!.keys()]);
    for (const [name, bytes] of first!) {
      if (!bytes.equals(second!.get(name)!)) expect([name, second!.get(name)]).toEqual([name, bytes]);
    }
  }

  #batch(): Uint8Array {
    const random = this.#random;
    if (random.int(4) === 0) {
      const compression = random.pick(COMPRESSIONS);
      const builder = new BatchBuilder({
        compression,
        producerId: random.int(5),
        producerEpoch: 0,
        baseSequence: 1,
      });
      for (let i = 1 + random.int(5); i > 0; i--)
        builder.append({ timestamp: this.#now - i, key: 'k', value: Buffer.alloc(random.int(200), i) });
      return Buffer.from(builder.build());
    }
    const attributes = random.pick([0, 0, 0, 0x10, 0x30, 0x20, 0x08]);
    const late = random.int(20) === 0 ? random.pick(ODD_TIMES) : this.#now - random.int(300);
    const bytes = Buffer.from(
      batch({
        recordCount: 1 + random.int(5),
        maxTimestamp: late,
        producerId: random.int(3) === 0 ? random.int(5) : -1,
        attributes,
        payload: new Uint8Array(random.int(random.int(12) === 0 ? 1500 : 160)).fill(random.int(256)),
      }),
    );
    // A timestamp that a double can't hold.
    if (random.int(60) === 0) {
      bytes.writeBigInt64BE(2n ** 62n + BigInt(random.int(1000)), 35);
      patchCrc(bytes, 0, bytes.length);
    }
    return bytes;
  }

  #tick(): { readonly staged: unknown[]; readonly error: unknown }[] {
    const made = Array.from({ length: 1 + this.#random.int(4) }, () => this.#batch());
    const epoch = this.#random.int(5);
    return this.#twins.map(({ engine, log }) => {
      const staged: unknown[] = [];
      let error: unknown;
      for (const one of made) {
        const bytes = Buffer.concat([Buffer.alloc(3), one, Buffer.alloc(2)]);
        try {
          staged.push({ ...log.stage(bytes, 3, bytes.length - 2, epoch, this.#now) });
        } catch (refusal) {
          staged.push((refusal as BroadsheetError).code);
        }
      }
      engine.commit((_, failure) => {
        error = failure === undefined ? 'none' : [failure.code, failure.errno];
      });
      return { staged, error };
    });
  }

  #append(): void {
    this.#now += this.#random.int(20);
    const [first, second] = this.#tick();
    expect(second).toEqual(first);
    this.counts.batches += first!.staged.length;
  }

  /** A write of the tick fails: the log is cut back, or goes offline and is opened again later. */
  async #failToWrite(): Promise<void> {
    await this.#flush();
    const call = this.#random.pick(['pwritev', 'pwritev', 'ftruncate', 'open'] as const);
    const errno = this.#random.pick([ENOSPC, ENOSPC, EIO, EMFILE]);
    // The one that is struck is a call of the tick itself, not one of a flush that follows it.
    for (const { under } of this.#twins) {
      under.setFault(call, 0, 1, errno, 0);
      if (call === 'ftruncate') under.setFault('pwritev', 0, 1, ENOSPC, 0);
    }
    const [first, second] = this.#tick();
    for (const { under } of this.#twins) under.clearFaults();
    expect(second).toEqual(first);
    this.counts.faults++;
  }

  #offset(): number {
    return this.#random.int(this.#twins[0]!.log.logEndOffset + 4);
  }

  async #read(): Promise<void> {
    const offset = this.#offset() - (this.#random.int(40) === 0 ? 2 : 0);
    const upTo = this.#random.int(3) === 0 ? this.#offset() : this.#twins[0]!.log.writtenOffset;
    const maxBytes = this.#random.int(10) === 0 ? this.#random.int(60) : this.#random.int(4000);
    const minOne = this.#random.int(2) === 0;
    const results: unknown[] = [];
    for (const { log } of this.#twins) {
      try {
        results.push(bytesOf(await readWarm(log, offset, maxBytes, upTo, minOne)));
      } catch (error) {
        if (!(error instanceof BroadsheetError)) throw error;
        results.push(error.code);
      }
    }
    // In a damaged segment one finds its way by the index, which may lead through the damage, the other may remember a
    // batch behind it.
    const remembered = !this.#pristine && results[0] === 'CORRUPT' && typeof results[1] === 'object';
    if (!remembered) {
      expect(results[1], `read(${offset}, ${maxBytes}, ${upTo}, ${minOne})`).toEqual(results[0]);
    }
    this.counts.reads++;
  }

  async #ask(): Promise<void> {
    const offset = this.#offset();
    const upTo = this.#random.int(2) === 0 ? this.#offset() : this.#twins[0]!.log.writtenOffset;
    const target =
      this.#random.int(10) === 0 ? this.#random.pick(ODD_TIMES) : this.#now - this.#random.int(3000);
    const maxBytes = this.#random.int(4000);
    const only = this.#random.int(2) === 0;
    const kind = this.#random.int(5);
    const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');
    await this.#both(async ({ log }) => {
      if (kind === 0) return hex(await log.readBatches(offset, maxBytes, upTo));
      if (kind === 1) return hex(await log.findBatchByTimestamp(target, offset, upTo));
      if (kind === 2) return hex(await log.findBatchByMaxTimestamp(offset, upTo));
      if (kind === 3) return (await log.segmentFacts()).map((facts) => ({ ...facts, lastModified: 0 }));
      return log.scanBatches(offset, upTo, only);
    });
  }

  #roll(): void {
    const [first, second] = this.#twins.map(({ log }) => {
      try {
        log.roll(this.#now);
        return 'rolled';
      } catch (error) {
        return (error as BroadsheetError).code;
      }
    });
    expect(second).toBe(first);
  }

  /** All is quiet when it returns: no flush of a roll runs any more. */
  async #flush(): Promise<void> {
    await this.#both(async ({ log }) => {
      await log.flush();
      await log.flush();
      return log.flushedOffset;
    });
  }

  #moveStart(): void {
    const offset = this.#offset();
    const [first, second] = this.#twins.map(({ log }) => {
      try {
        log.setLogStartOffset(offset);
        return log.logStartOffset;
      } catch (error) {
        return [(error as BroadsheetError).code, (error as BroadsheetError).message];
      }
    });
    expect(second).toEqual(first);
  }

  #setOptions(): void {
    this.#options = {
      ...this.#options,
      segmentBytes: 1000 + this.#random.int(8000),
      segmentMs: this.#random.pick([50, 1000, 100_000]),
      indexBytes: this.#random.pick([40, 200, 4096]),
    };
    for (const { log } of this.#twins) log.setOptions(this.#options);
  }

  /** Old segments go, as retention has it, or a cleaned one comes in the place of some. What left is removed, or stays for the
   * next start to find. */
  async #segmentsLeave(): Promise<void> {
    const random = this.#random;
    const bases = this.#twins[0]!.log.segmentBaseOffsets();
    const cleaned = random.int(2) === 0;
    const first = cleaned ? random.int(bases.length) : random.int(20) === 0 ? 1 : 0;
    const old = bases.slice(first, first + 1 + random.int(3));
    if (old.length === 0) return;
    const name = String(old[0]).padStart(20, '0');
    const removes = random.int(2) === 0;
    // A flush that goes on behind a roll ends at its own time in each.
    await this.#flush();
    await this.#both(async ({ log, dir }) => {
      if (cleaned) {
        for (const suffix of ['.log', '.index', '.timeindex']) {
          const from = join(dir, name + suffix);
          if (existsSync(from)) copyFileSync(from, `${from}.cleaned`);
        }
      }
      try {
        const gone = await log.replaceSegments(old, cleaned ? [old[0]!] : []);
        if (removes) for (const each of gone) rmSync(join(dir, each), { force: true });
        return gone.toSorted();
      } finally {
        if (cleaned)
          for (const suffix of ['.log', '.index', '.timeindex'])
            rmSync(join(dir, `${name}${suffix}.cleaned`), { force: true });
      }
    });
    this.counts.left++;
  }

  async #rename(): Promise<void> {
    const name = `t-${++this.#copies}`;
    for (const twin of this.#twins) {
      const to = join(twin.dir, '..', name);
      await twin.log.rename(to);
      expect(twin.log.dir).toBe(to);
      twin.dir = to;
    }
  }

  /** Every look-up that there is: an index that does not check out is then found out by both. */
  async #lookEverywhere(): Promise<void> {
    const { log } = this.#twins[0]!;
    const all = await this.#both((twin) => twin.log.scanBatches(0, log.logEndOffset, false));
    const found = 'is' in all ? (all.is as BatchInfo[]).map(({ baseOffset }) => baseOffset) : [];
    const bases = [
      ...found,
      ...log.segmentBaseOffsets(),
      ...Array.from({ length: 20 }, () => this.#offset()),
    ];
    for (const offset of bases) await this.#both((twin) => twin.log.scanBatches(offset, offset + 1, false));
  }

  async #reopen(stop: boolean): Promise<void> {
    const first = this.#twins[0]!;
    const offline = first.log.offline !== undefined;
    if (!offline) await this.#flush();
    const { flushedOffset, logStartOffset } = first.log;
    const harms = this.#random.int(3) !== 0;
    if (!this.#pristine) await this.#lookEverywhere();
    if (stop || offline) {
      await this.#both(({ engine }) => engine.close());
    } else {
      // As a kill leaves it: what is in memory only is gone.
      this.#append();
      await Promise.all(this.#twins.map(({ log }) => log.flush()));
      for (const twin of this.#twins) {
        const copy = `${twin.dir}-${++this.#copies}`;
        cpSync(twin.dir, copy, { recursive: true });
        await twin.engine.close();
        rmSync(twin.dir, { recursive: true });
        renameSync(copy, twin.dir);
      }
    }
    if (!offline) this.#sameFiles();
    const sound = filesOf(first.dir);
    if (harms) this.#harm();
    // Where offsets do not ascend, what a read finds depends on where it began to look: recovery finds that out.
    const disorder = [...filesOf(first.dir)].some(([name, bytes]) => {
      const positions = new Set([...positionsOf(bytes), ...positionsOf(sound.get(name) ?? bytes)]);
      return (
        name.endsWith('.log') &&
        isDisordered(
          bytes,
          [...positions].sort((a, b) => a - b),
        )
      );
    });
    const clean = this.#random.int(4) === 0 ? !stop : stop;
    const point = this.#random.int(4) === 0 ? this.#random.int(flushedOffset + 20) : flushedOffset;
    const options: OpenOptions = {
      ...this.#options,
      cleanShutdown: clean && !disorder,
      recoveryPoint: disorder ? 0 : point,
      logStartOffset: this.#random.int(12) === 0 ? this.#offset() : logStartOffset,
      now: this.#now,
    };
    await this.#openBoth(options);
    if (!harms) this.#sameFiles();
    else await this.#lookEverywhere();
  }

  async #openBoth(options: OpenOptions): Promise<void> {
    const outcome = await this.#both(async (twin) => {
      twin.engine = twin.under.make();
      twin.log = await twin.engine.open(twin.dir, options);
      const { fault, ...report } = twin.log.recovery;
      return { ...report, fault: fault?.replaceAll(FOLDER, ''), flushedOffset: twin.log.flushedOffset };
    });
    this.counts.openings++;
    if (!('is' in outcome)) {
      // What can't be opened begins anew.
      this.counts.refused++;
      for (const twin of this.#twins) rmSync(twin.dir, { recursive: true, force: true });
      this.#pristine = true;
      await this.#openBoth({ ...options, logStartOffset: 0, recoveryPoint: 0 });
      return;
    }
    const report = outcome.is as { bytesTruncated: number; indexesRebuilt: number };
    if (report.bytesTruncated > 0) this.counts.truncated++;
    if (report.indexesRebuilt > 0) this.counts.rebuilt++;
    this.#sameState();
  }

  /** The same harm to the same file of both. */
  #harm(): void {
    const random = this.#random;
    for (let times = 1 + random.int(3); times > 0; times--) {
      const files = filesOf(this.#twins[0]!.dir);
      const names = [...files.keys()].filter((each) => random.int(2) === 0 || each.endsWith('.log'));
      if (names.length === 0) return;
      const name = random.pick(names);
      const bytes = files.get(name)!;
      const change = this.#change(name, bytes);
      this.#pristine = false;
      for (const { dir } of this.#twins) change(dir);
    }
  }

  #change(name: string, bytes: Buffer): (dir: string) => void {
    const random = this.#random;
    const at = random.int(bytes.length + 1);
    const write = (to: string, content: Uint8Array) => (dir: string) => writeFileSync(join(dir, to), content);
    switch (random.int(10)) {
      case 0:
        return (dir) => rmSync(join(dir, name));
      case 1:
        return (dir) => truncateSync(join(dir, name), at);
      case 2:
        return write(name, Buffer.concat([bytes, Buffer.alloc(1 + random.int(300), random.int(2) * 0xab)]));
      case 3:
        return write(name, Buffer.concat([bytes, Buffer.alloc(24 * random.int(300))]));
      case 4: {
        // A header's field, where there is one.
        const changed = Buffer.from(bytes);
        if (changed.length >= BATCH_HEADER_BYTES)
          changed[random.int(BATCH_HEADER_BYTES)]! ^= 1 << random.int(8);
        return write(name, changed);
      }
      case 5: {
        const suffix = random.pick(['.swap', '.cleaned', '.deleted']);
        return write(name + suffix, bytes);
      }
      case 6:
        return write(`${String(random.int(90)).padStart(20, '0')}.index`, Buffer.alloc(8 * random.int(4)));
      default: {
        const changed = Buffer.from(bytes);
        for (let flips = 1 + random.int(3); flips > 0 && changed.length > 0; flips--)
          changed[random.int(changed.length)]! ^= 1 << random.int(8);
        return write(name, changed);
      }
    }
  }
}
