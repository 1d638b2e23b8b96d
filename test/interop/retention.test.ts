/**
 * Retention, roll and DeleteRecords: the same script for Apache Kafka and for both engines, then log start, log end and the files that
 * are left, topic by topic. Timestamps are far enough away that nothing depends on how fast a broker is.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { alterConfigs, ResourceType } from '../../src/client/admin.ts';
import { BrokerRefusal, EARLIEST, LATEST } from '../../src/client/client.ts';
import { normalised } from '../support/compare-wire.ts';
import { ENGINES } from '../support/engines.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { batch, type LogPeer, oursOn, theirsOn } from '../support/log-peer.ts';
import { FULL_SIZE } from '../support/scale.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 300_000 });

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.now();
/** More than two records do not fit into one. */
const ROLLING = { 'internal.segment.bytes': '400', 'file.delete.delay.ms': '0' };
const FOREVER = { 'retention.ms': '-1' };
/** Nothing is compacted; what deletes from compacted topics in Apache Kafka is the cleaner. */
const UNCLEANED = { 'min.compaction.lag.ms': '9223372036854775807' };
/** Looked at by the log manager, and by the cleaner. */
const CANARIES = { canary: 'delete', 'canary-compacted': 'compact,delete' };
const SETTINGS = {
  'log.retention.check.interval.ms': '200',
  'log.initial.task.delay.ms': '200',
  'log.cleaner.backoff.ms': '200',
};

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-retention-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), kafkaPort());
kafka.settings.push(...Object.entries(SETTINGS).map(([key, value]) => `${key}=${value}`));
const theirs = theirsOn(kafka);
const ours = ENGINES.map(({ name }) => oursOn(join(dir, name), { engine: name, ...SETTINGS }));
const peers = [theirs, ...ours];

beforeAll(async () => {
  await Promise.all(peers.map((peer) => peer.start()));
  await onAll(async (peer) => {
    const configs = { ...UNCLEANED, 'retention.ms': '1', 'file.delete.delay.ms': '0' };
    for (const [topic, policy] of Object.entries(CANARIES))
      await peer.create(topic, { ...configs, 'cleanup.policy': policy });
  });
}, 300_000);
afterAll(async () => {
  await Promise.allSettled(peers.map((peer) => peer.end()));
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

function onAll<T>(work: (peer: LogPeer) => Promise<T>): Promise<T[]> {
  return Promise.all(peers.map(work));
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

const offsetOf = async (peer: LogPeer, topic: string, which: number) =>
  (await peer.client.listOffset(topic, 0, which)).offset;

/** Resolves when a broker has looked at all of its logs: the second canary dies in a later look than the first, and the third's
 * begins when the one before it is over. */
async function looked(peer: LogPeer): Promise<void> {
  for (const topic of Object.keys(CANARIES)) {
    for (let i = 0; i < 3; i++) {
      await peer.produce(topic, batch([NOW - HOUR]));
      await until(
        async () => (await offsetOf(peer, topic, EARLIEST)) === (await offsetOf(peer, topic, LATEST)),
      );
    }
  }
}

/** One record of 200 bytes with each timestamp, each in a batch of its own: two make a segment. */
async function fill(peer: LogPeer, topic: string, times: readonly number[]): Promise<void> {
  for (const time of times) {
    const { errorCode } = await peer.produce(topic, batch([time], 'none', 'x'.repeat(120)));
    expect(errorCode).toBe(0);
  }
}

async function alter(peer: LogPeer, topic: string, configs: Record<string, string>): Promise<void> {
  const changes = Object.entries(configs).map(([name, value]) => ({ name, value }));
  await alterConfigs(peer.client, { type: ResourceType.TOPIC, name: topic }, changes);
}

/** Files of a topic: bytes of each segment, and the bases of the others by suffix. The active segment's indexes are made when there
 * is something in them; a snapshot's name comes and goes with its segment's in Kafka only. */
function filesOf(peer: LogPeer, topic: string): Record<string, string[]> {
  const folder = join(peer.dataDir, `${topic}-0`);
  const names = readdirSync(folder).sort();
  const active = names.findLast((name) => name.endsWith('.log'))!.split('.')[0];
  const of = (kind: string) => names.filter((name) => name.endsWith(`.${kind}`));
  const closed = (kind: string) => of(kind).filter((name) => !name.startsWith(active!));
  return {
    log: of('log').map((name) => `${name}: ${statSync(join(folder, name)).size}`),
    index: closed('index'),
    timeindex: closed('timeindex'),
    // One past it may be written here, before segments go.
    snapshot: of('snapshot').filter((name) => name.split('.')[0]! <= active!),
    deleted: of('deleted').filter((name) => !name.includes('snapshot')),
  };
}

interface State {
  readonly start: number;
  readonly end: number;
  readonly files: Record<string, string[]>;
}

async function stateOf(peer: LogPeer, topic: string): Promise<State> {
  await until(() => filesOf(peer, topic).deleted!.length === 0);
  const start = await offsetOf(peer, topic, EARLIEST);
  return { start, end: await offsetOf(peer, topic, LATEST), files: filesOf(peer, topic) };
}

const bases = ({ files }: State) => files.log!.map((text) => Number(text.split('.')[0]));

/** Here an empty segment may follow, without traffic. */
function filled({ files }: State): number[] {
  return files.log!.filter((text) => !text.endsWith(': 0')).map((text) => Number(text.split('.')[0]));
}

/** What all have in common, once files that are written beside are there. */
async function same(topic: string): Promise<State> {
  let states = await onAll((peer) => stateOf(peer, topic));
  for (let tries = 0; tries < 100 && states.some((state) => !isDeepStrictEqual(state, states[0])); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    states = await onAll((peer) => stateOf(peer, topic));
  }
  const [wanted, ...got] = states;
  for (const [i, state] of got.entries())
    expect(state, `${topic}, engine=${ENGINES[i]!.name}`).toEqual(wanted);
  return wanted!;
}

interface Case {
  readonly configs: Record<string, string>;
  /** Timestamps, from now. */
  readonly times: readonly number[];
  /** Where the log begins at last, and its segments. */
  readonly start: number;
  readonly bases: readonly number[];
  readonly after?: (peer: LogPeer, topic: string) => Promise<unknown>;
}

const AGES = [-5, -4, -3, -2, -1, 0].map((days) => days * DAY);
const BY_AGE = { ...ROLLING, ...UNCLEANED, 'message.timestamp.after.max.ms': '9223372036854775807' };

const CASES: Record<string, Case> = {
  'by age': { configs: { 'retention.ms': String(3.5 * DAY) }, times: AGES, start: 2, bases: [2, 4] },
  'by age, the active segment too': {
    configs: { 'retention.ms': '1' },
    times: AGES.slice(0, 5),
    start: 5,
    bases: [5],
  },
  'by age, as old as its newest record': {
    configs: { 'retention.ms': String(2 * DAY) },
    times: [-6, -1, -6, -6, -6, 0].map((days) => days * DAY),
    start: 0,
    bases: [0, 2, 4],
  },
  never: { configs: FOREVER, times: AGES, start: 0, bases: [0, 2, 4] },
  'compacted: not by age': {
    configs: { 'cleanup.policy': 'compact', 'retention.ms': '1' },
    times: AGES,
    start: 0,
    bases: [0, 2, 4],
  },
  'compacted and deleted: by age': {
    configs: { 'cleanup.policy': 'compact,delete', 'retention.ms': String(3.5 * DAY) },
    times: AGES,
    start: 2,
    bases: [2, 4],
  },
  'no policy: not by age': {
    configs: { 'cleanup.policy': '', 'retention.ms': '1' },
    times: AGES,
    start: 0,
    bases: [0, 2, 4],
  },
  'log append time: not by what the producer says': {
    configs: { 'message.timestamp.type': 'LogAppendTime', 'retention.ms': String(DAY) },
    times: AGES,
    start: 0,
    bases: [0, 2, 4],
  },
  'log append time: by when it came': {
    configs: { 'message.timestamp.type': 'LogAppendTime', ...FOREVER },
    times: [DAY, 2 * DAY, 0],
    start: 3,
    bases: [3],
    after: (peer, topic) => alter(peer, topic, { 'retention.ms': '1' }),
  },
  'by age, behind what goes by size': {
    configs: { 'retention.ms': String(3 * DAY), 'retention.bytes': '700' },
    times: [0, 0, -9, -9, 0, 0].map((days) => days * DAY),
    start: 4,
    bases: [4],
  },
  'below the log start': {
    configs: FOREVER,
    times: AGES,
    start: 3,
    bases: [2, 4],
    after: (peer, topic) => peer.deleteBelow(topic, 3),
  },
  'below the log start, at the end of a segment': {
    configs: FOREVER,
    times: AGES,
    start: 4,
    bases: [4],
    after: (peer, topic) => peer.deleteBelow(topic, 4),
  },
  'all below the log start': {
    configs: FOREVER,
    times: AGES,
    start: 6,
    bases: [4],
    after: (peer, topic) => peer.deleteBelow(topic, -1),
  },
  'compacted: not on request': {
    configs: { 'cleanup.policy': 'compact' },
    times: AGES,
    start: 0,
    bases: [0, 2, 4],
    after: (peer, topic) => peer.deleteBelow(topic, 5),
  },
  'segment.ms by timestamps': {
    configs: { ...FOREVER, 'segment.ms': String(DAY), 'internal.segment.bytes': '100000' },
    times: [-9, -8.5, -8, -7.99, 0, -9, -0.5, 1.1].map((days) => days * DAY),
    start: 0,
    bases: [0, 3, 4, 7],
  },
};

/** Bytes of retention.bytes, for six records of two a segment, and where the log begins then. */
const SIZES: readonly (readonly [records: number, more: number, start: number])[] = [
  [6, 1, 0],
  [6, 0, 0],
  [4, 1, 0],
  [4, 0, 2],
  [2, 1, 2],
  [2, 0, 4],
  [0, 1, 4],
  [0, 0, 6],
];

const topicOf = (name: string) => name.replace(/[^a-z]+/g, '-');

describe('what retention leaves', () => {
  const recordBytes = batch([0], 'none', 'x'.repeat(120)).length;

  beforeAll(async () => {
    for (const [records, more, start] of SIZES) {
      CASES[`by size ${'abcdefg'[records]}${more === 0 ? '' : ' and more'}`] = {
        configs: { ...FOREVER, 'retention.bytes': String(records * recordBytes + more) },
        times: AGES,
        start,
        bases: [0, 2, 4, 6].filter((base) => base >= start && (base < 6 || start === 6)),
      };
    }
    await onAll(async (peer) => {
      const configsOf = (each: Case) => ({ ...BY_AGE, ...each.configs });
      // Nothing goes before all is there.
      const kept = { 'retention.ms': '-1', 'retention.bytes': '-1' };
      await peer.client.createTopics(
        Object.entries(CASES).map(([name, each]) => ({
          name: topicOf(name),
          partitions: 1,
          configs: { ...configsOf(each), ...kept },
        })),
      );
      for (const [name, each] of Object.entries(CASES)) {
        const topic = topicOf(name);
        await peer.untilServed(topic);
        await fill(
          peer,
          topic,
          each.times.map((time) => NOW + time),
        );
        const given = Object.entries(each.configs).filter(([key]) => key in kept);
        if (given.length > 0) await alter(peer, topic, Object.fromEntries(given));
        await each.after?.(peer, topic);
      }
      await looked(peer);
    });
  });

  it('is the same', async () => {
    for (const [name, each] of Object.entries(CASES)) {
      const state = await same(topicOf(name));
      expect({ start: state.start, bases: bases(state) }, name).toEqual({
        start: each.start,
        bases: each.bases,
      });
      expect(state.end, name).toBe(each.times.length);
    }
  });

  it('is told to a reader of what is gone', async () => {
    const topic = topicOf('by age');
    const answers = await onAll(async (peer) => {
      const fetched = await peer.client.fetch(topic, 0, 1).catch((error) => error);
      return fetched instanceof BrokerRefusal ? fetched.kafkaError : 'records';
    });
    expect(answers).toEqual(answers.map(() => 'OFFSET_OUT_OF_RANGE'));
  });

  it.runIf(FULL_SIZE)('is the same after a restart', async () => {
    await onAll(async (peer) => {
      await peer.end();
      await peer.start();
      for (const name of Object.keys(CASES)) await peer.untilServed(topicOf(name));
      await looked(peer);
    });
    for (const [name, each] of Object.entries(CASES)) {
      const [wanted, ...got] = await onAll((peer) => stateOf(peer, topicOf(name)));
      for (const state of got)
        expect([state.start, state.end, bases(state)], name).toEqual([
          each.start,
          wanted!.end,
          bases(wanted!),
        ]);
    }
  });
});

describe('a segment', () => {
  const lasting = { ...FOREVER, 'file.delete.delay.ms': '0' };

  it('without traffic is closed here after segment.ms, by Apache Kafka with the next append', async () => {
    const topic = 'idle';
    const configs = { ...lasting, 'segment.ms': '300' };
    await onAll(async (peer) => {
      await peer.create(topic, configs);
      await fill(peer, topic, [Date.now()]);
      await new Promise((resolve) => setTimeout(resolve, 500));
      await looked(peer);
    });
    const [kafkaState, ...states] = await onAll((peer) => stateOf(peer, topic));
    expect(bases(kafkaState!)).toEqual([0]);
    for (const state of states) expect(bases(state)).toEqual([0, 1]);
    await onAll((peer) => fill(peer, topic, [Date.now()]));
    for (const state of await onAll((peer) => stateOf(peer, topic))) expect(filled(state)).toEqual([0, 1]);
  });

  it('is closed by log append time', async () => {
    const topic = 'stamped';
    await onAll(async (peer) => {
      await peer.create(topic, {
        ...lasting,
        'message.timestamp.type': 'LogAppendTime',
        'segment.ms': '300',
      });
      // The producer's times say otherwise.
      await fill(peer, topic, [NOW]);
      await new Promise((resolve) => setTimeout(resolve, 350));
      await fill(peer, topic, [NOW - DAY]);
    });
    for (const state of await onAll((peer) => stateOf(peer, topic))) expect(filled(state)).toEqual([0, 1]);
  });

  it('with a time ahead holds Apache Kafka back, and not us', async () => {
    const topic = 'ahead';
    await onAll(async (peer) => {
      await peer.create(topic, { ...BY_AGE, 'retention.ms': '1' });
      await fill(peer, topic, [NOW + DAY, NOW - DAY, NOW - DAY, NOW - DAY, NOW - DAY]);
      await looked(peer);
      await looked(peer);
    });
    const [kafkaState, ...states] = await onAll((peer) => stateOf(peer, topic));
    expect([kafkaState!.start, bases(kafkaState!)]).toEqual([0, [0, 2, 4]]);
    for (const state of states) expect([state.start, bases(state)]).toEqual([5, [5]]);
  });

  it('keeps its files for file.delete.delay.ms under another name', async () => {
    const delays = { kept: '600000', removed: '500' };
    await onAll(async (peer) => {
      for (const [topic, delay] of Object.entries(delays)) {
        await peer.create(topic, { ...ROLLING, ...FOREVER, 'file.delete.delay.ms': delay });
        await fill(
          peer,
          topic,
          AGES.map((time) => NOW + time),
        );
        await alter(peer, topic, { 'retention.ms': String(3.5 * DAY) });
      }
      await until(async () => (await offsetOf(peer, 'kept', EARLIEST)) === 2);
      await looked(peer);
    });
    const [wanted, ...got] = await onAll(async (peer) => filesOf(peer, 'kept'));
    expect(wanted).toMatchObject({
      deleted: ['index', 'log', 'timeindex'].map((kind) => `${'0'.repeat(20)}.${kind}.deleted`),
      index: [`${'0'.repeat(19)}2.index`],
    });
    for (const files of got) expect(files).toEqual(wanted);
    expect(bases(await same('removed'))).toEqual([2, 4]);
  });
});

it('a timestamp out of the limits is refused alike', async () => {
  const topic = 'limits';
  const answers = await onAll(async (peer) => {
    await peer.create(topic, {
      'message.timestamp.before.max.ms': String(HOUR),
      'message.timestamp.after.max.ms': String(2 * HOUR),
    });
    const codes: unknown[] = [];
    for (const hours of [[0, -2], [3], [0, 0, 0, 3], [-0.9, 1.9]]) {
      const { errorCode, recordErrors } = await peer.produce(
        topic,
        batch(hours.map((each) => Date.now() + each * HOUR)),
      );
      codes.push(normalised({ errorCode, at: recordErrors.map(({ batchIndex }) => batchIndex) }));
    }
    return codes;
  });
  const refused = (...at: number[]) => ({ errorCode: 'INVALID_TIMESTAMP', at });
  const wanted = [refused(1), refused(0), refused(3), { errorCode: 'NONE', at: [] }];
  for (const answer of answers) expect(answer).toEqual(wanted);
});
