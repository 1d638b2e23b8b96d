/** Timestamps and offsets by time: the same produce requests to Apache Kafka and to both engines in one run, answer by answer. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EARLIEST, LATEST, MAX_TIMESTAMP } from '../../src/client/client.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { ATTRIBUTE_LOG_APPEND_TIME, CRC_AT, patchCrc } from '../../src/protocol/records/batch.ts';
import type { RecordBatch } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { normalised } from '../support/compare-wire.ts';
import { ENGINES } from '../support/engines.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { batch, type LogPeer, oursOn, theirsOn } from '../support/log-peer.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { TransactionScript } from '../support/transaction-script.ts';

const CODECS: CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const TYPES = ['CreateTime', 'LogAppendTime'] as const;
const MINUTE = 60_000;
const SEED = seedOf('time-kafka', 20_262);
const BATCHES = scaled(120, 600);
const EARLIEST_LOCAL = -4;
const LATEST_TIERED = -5;
const EARLIEST_PENDING_UPLOAD = -6;

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-time-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), kafkaPort());

const theirs = theirsOn(kafka);
const ours = ENGINES.map(({ name }) => oursOn(join(dir, name), { engine: name }));
const peers = [theirs, ...ours];

beforeAll(async () => {
  await Promise.all(peers.map((peer) => peer.start()));
}, 300_000);
afterAll(async () => {
  await Promise.allSettled(peers.map((peer) => peer.end()));
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

/** The same on all; what Kafka gave, and what each engine gave. */
async function onAll<T>(work: (peer: LogPeer) => Promise<T>): Promise<[T, ...T[]]> {
  return (await Promise.all(peers.map(work))) as [T, ...T[]];
}

async function same<T>(what: string, work: (peer: LogPeer) => Promise<T>): Promise<T> {
  const [wanted, ...got] = await onAll(work);
  for (const [i, each] of got.entries()) expect(each, `${what}, engine=${ENGINES[i]!.name}`).toEqual(wanted);
  return wanted;
}

/** As a producer that claims what only a log may. */
function flagged(bytes: Uint8Array): Uint8Array {
  bytes[22]! |= ATTRIBUTE_LOG_APPEND_TIME;
  patchCrc(bytes, 0, bytes.length);
  return bytes;
}

describe('limits of timestamps', () => {
  const limits: Record<string, Record<string, string>> = {
    plain: {},
    before: { 'message.timestamp.before.max.ms': String(60 * MINUTE) },
    after: { 'message.timestamp.after.max.ms': String(10 * MINUTE) },
    both: {
      'message.timestamp.before.max.ms': String(60 * MINUTE),
      'message.timestamp.after.max.ms': String(60 * MINUTE),
    },
    none: { 'message.timestamp.after.max.ms': '9223372036854775807' },
    stamped: {
      'message.timestamp.type': 'LogAppendTime',
      'message.timestamp.before.max.ms': '1',
      'message.timestamp.after.max.ms': '1',
    },
  };
  /** Minutes from now, of each record. */
  const times: Record<string, number[]> = {
    now: [0],
    'within an hour': [-59, 0, 59],
    'early at 0': [-61, 0, 0],
    'early at 2': [0, 0, -61, 0],
    'late at 1': [0, 61],
    'early at 1, late at 2': [0, -61, 61, 0],
    'late at 0 and 3': [61, 0, 0, 61],
    'years away': [-20_000_000, 20_000_000],
  };

  it.each(Object.keys(limits))('of a topic with limits: %s', async (name) => {
    const topic = `limits-${name}`;
    await onAll((peer) => peer.create(topic, limits[name]));
    let refused = 0;
    const ask = async (what: string, build: () => Uint8Array) => {
      const answers = await onAll(async (peer) => {
        const { index: _, logAppendTimeMs, ...rest } = await peer.produce(topic, build());
        return normalised({ ...rest, stamped: logAppendTimeMs >= 0 }) as {
          errorCode: string;
          recordErrors: { batchIndex: number }[];
        };
      });
      // Of several records at fault, ours names the first.
      const wanted = { ...answers[0], recordErrors: answers[0].recordErrors.slice(0, 1) };
      for (const [i, answer] of answers.slice(1).entries())
        expect(answer, `${what}, engine=${ENGINES[i]!.name}`).toEqual(wanted);
      if (wanted.errorCode === 'INVALID_TIMESTAMP') {
        refused++;
        expect(wanted).toMatchObject({ errorMessage: '<text>' });
        expect(wanted.recordErrors).toMatchObject([{ batchIndexErrorMessage: '<text>' }]);
      }
    };
    for (const codec of CODECS) {
      for (const [what, minutes] of Object.entries(times)) {
        const build = () =>
          batch(
            minutes.map((each) => Date.now() + each * MINUTE),
            codec,
          );
        await ask(`${what}, ${codec}`, build);
        if (minutes.length > 1) await ask(`flagged, ${what}, ${codec}`, () => flagged(build()));
      }
      await ask(`no time, ${codec}`, () => batch([-1, -1], codec));
    }
    expect(refused > 0).toBe(name !== 'none');
    await same('what is kept', async (peer) => (await peer.batches(topic)).length);
  });
});

describe('what is stored', () => {
  const targets = ['producer', 'uncompressed', 'gzip', 'snappy', 'lz4', 'zstd'];

  /** A batch with what may differ taken out. */
  function seen(stored: RecordBatch, answered: number, stamped: boolean, recoded: boolean): unknown {
    const { timestampType, maxTimestamp, baseOffset, leaderEpoch, recordCount, compression } = stored;
    const records = [...stored.records()].map(({ offset, timestamp, value }) => [
      offset,
      stamped ? timestamp === answered : timestamp,
      Buffer.from(value!).toString(),
    ]);
    const bytes = Buffer.from(stored.bytes.subarray(stored.start, stored.start + stored.sizeInBytes));
    bytes.fill(0, CRC_AT, CRC_AT + 4);
    if (stamped) bytes.fill(0, 35, 43);
    return {
      ...{ timestampType, baseOffset, leaderEpoch, recordCount, compression, records },
      answered: stamped ? answered > 0 : answered,
      largest: stamped ? maxTimestamp === answered : maxTimestamp,
      // Two libraries compress otherwise.
      bytes: recoded ? undefined : bytes.toString('hex'),
    };
  }

  describe.each(TYPES)('%s', (type) => {
    it.each(targets)('with compression.type=%s, of each codec', async (target) => {
      const topic = `stored-${type}-${target}`;
      const time = Date.now();
      await onAll((peer) =>
        peer.create(topic, { 'message.timestamp.type': type, 'compression.type': target }),
      );
      const stamped = type === 'LogAppendTime';
      const sent = CODECS.flatMap((codec) => {
        const times = [time - 3, time + 20, time - 500, time + 20];
        const wrong = Buffer.from(batch(times, codec));
        // The header claims a later time than any record has.
        wrong.writeBigInt64BE(BigInt(time + 999), 35);
        patchCrc(wrong, 0, wrong.length);
        return [batch(times, codec), wrong, batch([time], codec)].map((bytes) => ({ codec, bytes }));
      });
      const kept = await same(topic, async (peer) => {
        const answered: number[] = [];
        for (const { bytes } of sent) {
          const { errorCode, logAppendTimeMs } = await peer.produce(topic, Uint8Array.from(bytes));
          expect(errorCode).toBe(0);
          answered.push(logAppendTimeMs);
        }
        const stored = await peer.batches(topic);
        expect(stored).toHaveLength(sent.length);
        return stored.map((each, i) => {
          const { codec } = sent[i]!;
          const recoded = target !== 'producer' && target !== (codec === 'none' ? 'uncompressed' : codec);
          return seen(each, answered[i]!, stamped, recoded);
        });
      });
      expect(kept[1]).toMatchObject({ timestampType: type, largest: stamped ? true : time + 20 });
    });
  });
});

/** Batches of all codecs over many segments, mostly rising in time. */
function load(): Uint8Array[] {
  const random = new Random(SEED);
  const from = Date.now() - 40 * MINUTE;
  return Array.from({ length: BATCHES }, (_, i) => {
    const builder = new BatchBuilder({ compression: random.pick(CODECS) });
    for (let n = random.int(8); n >= 0; n--) {
      const timestamp =
        random.int(40) === 0 ? from + random.int(BATCHES * 100) : from + 100 * i + random.int(500);
      builder.append({ timestamp, value: `${random.int(1 << 30)} `.repeat(1 + random.int(60)) });
    }
    return builder.build();
  });
}

const ROLLING = { 'internal.segment.bytes': '8192', 'index.interval.bytes': '300' };

interface Timed {
  readonly offset: number;
  readonly timestamp: number;
}

async function timed(peer: LogPeer, topic: string): Promise<Timed[]> {
  return (await peer.batches(topic)).flatMap((each) =>
    [...each.records()].map(({ offset, timestamp }) => ({ offset, timestamp })),
  );
}

/** Times around each one that a record has, and far away. */
function around(records: readonly Timed[]): number[] {
  const times = records.flatMap(({ timestamp }) => [timestamp - 1, timestamp, timestamp + 1]);
  return [...new Set([0, 1, ...times, Date.now() + 1e9])].sort((a, b) => a - b);
}

/** Every answer by time, in each version that has it. */
async function answers(peer: LogPeer, topic: string, times: readonly number[]): Promise<string[]> {
  const lines: string[] = [];
  for (const special of [
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    EARLIEST_LOCAL,
    LATEST_TIERED,
    EARLIEST_PENDING_UPLOAD,
    -7,
  ]) {
    for (let version = 1; version <= 11; version++) {
      for (const isolationLevel of version < 2 ? [0] : [0, 1]) {
        const answer = await peer.listed(topic, special, { version, isolationLevel });
        lines.push(`${special} v${version} ${isolationLevel}: ${JSON.stringify(answer)}`);
      }
    }
  }
  for (const time of times)
    for (const isolationLevel of [0, 1])
      lines.push(
        `${time} ${isolationLevel}: ${JSON.stringify(await peer.listed(topic, time, { isolationLevel }))}`,
      );
  return lines;
}

describe('offsets by time', () => {
  it(`over many segments of compressed batches, BROADSHEET_SEED=${SEED}`, async () => {
    const topic = 'by-time';
    const batches = load();
    await onAll(async (peer) => {
      await peer.create(topic, ROLLING);
      for (const bytes of batches)
        expect((await peer.produce(topic, Uint8Array.from(bytes))).errorCode).toBe(0);
    });
    const records = await same('records', (peer) => timed(peer, topic));
    const times = around(records);
    const first = await same('answers', (peer) => answers(peer, topic, times));
    const at = new Map(first.map((line) => line.split(': ', 2) as [string, string]));
    for (const time of times) {
      const wanted = records.find(({ timestamp }) => timestamp >= time);
      expect(at.get(`${time} 0`), String(time)).toContain(`"offset":${wanted?.offset ?? -1},`);
    }

    // Behind a log start within a segment. Where the first such record is gone Apache Kafka finds none, though others are left.
    const cut = records[Math.floor(records.length / 2)]!.offset + 1;
    await same('a log start', (peer) => peer.deleteBelow(topic, cut));
    const second = await answers(ours[0]!, topic, times);
    const left = new Map(second.map((line) => line.split(': ', 2) as [string, string]));
    for (const time of times) {
      const wanted = records.find(({ timestamp, offset }) => timestamp >= time && offset >= cut);
      expect(left.get(`${time} 0`), String(time)).toContain(`"offset":${wanted?.offset ?? -1},`);
    }
    const isGone = (asked: string) => {
      const time = Number(asked.split(' ', 1)[0]);
      const largest = Math.max(...records.map(({ timestamp }) => timestamp));
      const sought = time === MAX_TIMESTAMP ? largest : time;
      return time !== EARLIEST && (records.find(({ timestamp }) => timestamp >= sought)?.offset ?? cut) < cut;
    };
    // The leader's epoch rises with a start.
    const ageless = (lines: readonly string[]) =>
      lines.map((line) => (line.startsWith(`${LATEST} `) ? line.replace(/"leaderEpoch":\d+/, '') : line));
    const expectBehind = async (peer: LogPeer, what: string) => {
      const got = ageless(await answers(peer, topic, times));
      const wanted = ageless(second).map((line, i) => {
        const isNone = isGone(line) && got[i]!.includes('"errorCode":"NONE","timestamp":-1,"offset":-1,');
        return isNone ? got[i]! : line;
      });
      expect(got, what).toEqual(wanted);
    };
    for (const [i, peer] of ours.entries())
      expect(await answers(peer, topic, times), ENGINES[i]!.name).toEqual(second);
    await expectBehind(theirs, 'Kafka behind a log start');

    // Each on a directory that another one wrote: the time indexes are read from disk.
    await onAll((peer) => peer.end());
    const crossed = new KafkaPeer(join(dir, 'crossed'), kafkaPort());
    try {
      for (const [i, { name }] of ENGINES.entries()) {
        const copy = join(dir, `crossed-${name}`);
        cpSync(theirs.dataDir, copy, { recursive: true });
        const read = oursOn(copy, { engine: name });
        await read.start();
        expect(ageless(await answers(read, topic, times)), `Kafka's, engine=${name}`).toEqual(
          ageless(second),
        );
        await read.end();
        rmSync(crossed.dir, { recursive: true, force: true });
        cpSync(ours[i]!.dataDir, crossed.dataDir, { recursive: true });
        const other = theirsOn(crossed);
        await other.start();
        await other.untilServed(topic);
        await expectBehind(other, `Kafka on what engine=${name} wrote`);
        await other.end();
      }
    } finally {
      await crossed.dispose();
      await onAll((peer) => peer.start());
      await onAll((peer) => peer.untilServed(topic));
    }
  });

  it(`where the log gives the time, BROADSHEET_SEED=${SEED}`, async () => {
    const topic = 'by-append-time';
    const batches = load();
    await onAll(async (peer) => {
      await peer.create(topic, { ...ROLLING, 'message.timestamp.type': 'LogAppendTime' });
      for (const bytes of batches) await peer.produce(topic, Uint8Array.from(bytes));
    });
    await onAll(async (peer) => {
      const records = await timed(peer, topic);
      const largest = records.reduce((best, each) => (each.timestamp > best.timestamp ? each : best));
      expect(await peer.listed(topic, MAX_TIMESTAMP)).toMatchObject(largest);
      for (const time of around(records)) {
        const wanted = records.find(({ timestamp }) => timestamp >= time) ?? { offset: -1, timestamp: -1 };
        expect(await peer.listed(topic, time), String(time)).toMatchObject(wanted);
      }
    });
  });

  it('below an open transaction', async () => {
    const topic = 'by-time-open';
    const time = Date.now() - 10 * MINUTE;
    await onAll(async (peer) => {
      await peer.create(topic);
      await peer.produce(topic, batch([time, time + 1000], 'gzip'));
      const script = new TransactionScript(peer.client.connection);
      await script.coordinator('open', 1);
      const producer = await script.init('open');
      await script.produce('open', producer, [topic, 0], 0, ['x'], { ageMs: 5 * MINUTE });
      expect(script.lines.filter((line) => !line.includes('NONE'))).toEqual([]);
      await peer.produce(topic, batch([time + 500], 'zstd'));
    });
    for (const asked of [LATEST, EARLIEST, time, time + 1, time + 1001, time + 9 * MINUTE])
      for (const isolationLevel of [0, 1])
        await same(`${asked} ${isolationLevel}`, async (peer) => {
          const { timestamp, ...rest } = await peer.listed(topic, asked, { isolationLevel });
          // The script's own time differs by a moment.
          return { ...rest, timestamp: timestamp > time + 2000 ? 'later' : timestamp };
        });
  });
});
