/**
 * Suite `parts`, by tinybench: checksums, the inspection of batches, finding a position by the index, finding frames, packing and
 * unpacking. The native engine beside the JS one; frames beside a bare loop; codecs beside gzip.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Bench } from 'tinybench';
import { BufferPool } from '../../src/broker/buffer-pool.ts';
import { FrameStream } from '../../src/broker/frame-stream.ts';
import { JsEngine } from '../../src/log/js-engine.ts';
import { jsInspector } from '../../src/log/js-inspector.ts';
import type { Log, LogEngine } from '../../src/log/log.ts';
import { NativeEngine } from '../../src/log/native-engine.ts';
import { nativeInspector } from '../../src/log/native-inspector.ts';
import { addon } from '../../src/native.ts';
import { COMPRESSIONS, compress, decompress } from '../../src/protocol/compression.ts';
import { crc32c } from '../../src/protocol/crc32c.ts';
import { batchOf } from '../batches.ts';
import { type Comparison, compare, LOG_OPTIONS, type Measurement, type Scale } from '../support.ts';

const SIZES = [100, 1024, 16 * 1024, 1 << 20];
/** What is packed: records that repeat as those of one topic do. */
const PACKED_BYTES = 64 * 1024;
const BATCHES = 2048;
const BATCH_BYTES = 1024;
/** Offsets that are looked for in turn. */
const PLACES = 64;
const FRAME_BYTES = 100;
const CHUNK_BYTES = 64 * 1024;

type Work = () => void;

/** The median of how often it runs in a second. */
function timed(work: Work, seconds: number): () => Promise<Measurement> {
  return async () => {
    const bench = new Bench({ time: seconds * 1000, warmupTime: seconds * 300 });
    bench.add('work', work);
    const [task] = await bench.run();
    const result = task!.result;
    if (!('latency' in result)) throw new Error(`a micro benchmark did not run: ${JSON.stringify(result)}`);
    // A run below the clock's resolution takes no time.
    return { perSecond: 1000 / Math.max(result.latency.p50, result.latency.mean, 1e-6) };
  };
}

interface Pair {
  readonly name: string;
  readonly ours: Work;
  readonly theirs: Work;
}

function checksums(): Pair[] {
  return SIZES.map((size) => {
    const bytes = Buffer.alloc(size, 'broadsheet ');
    const { crc32c: native } = addon();
    if (native(bytes, 0, size) !== crc32c(bytes)) throw new Error('the checksums differ');
    return {
      name: `checksum of ${size} B, native beside JS`,
      ours: () => native(bytes, 0, size),
      theirs: () => crc32c(bytes),
    };
  });
}

function inspections(): Pair[] {
  return SIZES.map((size) => {
    const batch = batchOf(size);
    const by = (inspector: typeof jsInspector) => () => {
      const { fault } = inspector.inspectBatch(batch, 0, size, size, -Infinity, Infinity);
      if (fault !== undefined) throw fault;
    };
    return {
      name: `inspection of a batch of ${size} B, native beside JS`,
      ours: by(nativeInspector),
      theirs: by(jsInspector),
    };
  });
}

async function filled(engine: LogEngine, dir: string): Promise<Log> {
  const log = await engine.open(dir, LOG_OPTIONS);
  for (let i = 0; i < BATCHES; i++) log.stage(batchOf(BATCH_BYTES), 0, BATCH_BYTES, 0, 0);
  engine.commit((_, error) => {
    if (error !== undefined) throw error;
  });
  return log;
}

/** Reads one place after the other. */
async function lookups(log: Log): Promise<Work> {
  const offsets = Array.from({ length: PLACES }, (_, i) => (i * 7919) % BATCHES);
  for (const offset of offsets) await log.warm(offset, BATCH_BYTES);
  let at = 0;
  return () => {
    const offset = offsets[at++ % PLACES]!;
    const { kind } = log.read(offset, BATCH_BYTES, BATCHES, true);
    if (kind !== 'range') throw new Error(`offset ${offset}: ${kind}`);
  };
}

function framing(): Pair {
  const frame = Buffer.alloc(FRAME_BYTES, 'x');
  frame.writeInt32BE(FRAME_BYTES - 4);
  const chunk = Buffer.alloc(CHUNK_BYTES - (CHUNK_BYTES % FRAME_BYTES), frame);
  const frames = new FrameStream(1 << 20, new BufferPool(14, 1 << 20));
  let seen = 0;
  const sink = { onFrame: () => void seen++, onBadFrame: () => {}, lend: () => {} };
  return {
    name: `${chunk.length / FRAME_BYTES} frames of a chunk, transport=js beside a bare loop`,
    ours: () => {
      frames.push(chunk);
      if (frames.take(sink, 1, chunk.length, 2 * chunk.length) !== 'all') throw new Error('frames are left');
    },
    theirs: () => {
      for (let at = 0; at < chunk.length; at += 4 + chunk.readInt32BE(at)) sink.onFrame();
    },
  };
}

function codecs(): Pair[] {
  const bytes = batchOf(PACKED_BYTES);
  return COMPRESSIONS.filter((name) => name !== 'none' && name !== 'gzip').flatMap((name) => {
    const packed = compress(name, bytes);
    const zipped = compress('gzip', bytes);
    return [
      {
        name: `packing 64 KiB with ${name}, beside gzip`,
        ours: () => compress(name, bytes),
        theirs: () => compress('gzip', bytes),
      },
      {
        name: `unpacking 64 KiB of ${name}, beside gzip`,
        ours: () => decompress(name, packed),
        theirs: () => decompress('gzip', zipped),
      },
    ];
  });
}

export async function parts(scale: Scale): Promise<Comparison[]> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-parts-'));
  const engines = [new NativeEngine(), new JsEngine()] as const;
  const logs: Log[] = [];
  try {
    for (const engine of engines) logs.push(await filled(engine, join(dir, engine.name)));
    const [native, js] = logs as [Log, Log];
    const pairs: Pair[] = [
      ...checksums(),
      ...inspections(),
      {
        name: `finding one of ${BATCHES} batches by offset, native beside JS`,
        ours: await lookups(native),
        theirs: await lookups(js),
      },
      framing(),
      ...codecs(),
    ];
    const results: Comparison[] = [];
    // A micro benchmark needs less time than one over sockets.
    const seconds = scale.seconds / 10;
    for (const { name, ours, theirs } of pairs)
      results.push(await compare(name, '/s', scale.rounds, timed(ours, seconds), timed(theirs, seconds)));
    return results;
  } finally {
    for (const log of logs) await log.close();
    for (const engine of engines) await engine.close();
    rmSync(dir, { recursive: true, force: true });
  }
}
