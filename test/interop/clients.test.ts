/** Unmodified clients of many languages, the same scenarios for each: see test/interop/clients/README.md. */
import { describe, expect, it } from 'vitest';
import type { ClientDriver, Codec, DriverRecord, GroupProtocol } from '../support/client-driver.ts';
import { abilitiesOf, BRISK_GROUPS, chosen, playScene, type Scene, unable } from '../support/client-scene.ts';
import { CLIENTS, type ClientKind } from '../support/clients.ts';
import { scaled } from '../support/scale.ts';

const PARTITIONS = 4;
/** Of the member that dies. */
const SHORT_SESSION_MS = 3_000;
/** Of the others, which a busy machine must not count as dead. In the consumer protocol the broker chooses, for all. */
const LONG_SESSION_MS = 30_000;
const SETTINGS = {
  'num.partitions': String(PARTITIONS),
  ...BRISK_GROUPS,
  'group.consumer.session.timeout.ms': '5000',
};
const CODECS: readonly Codec[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const PROTOCOLS: readonly GroupProtocol[] = ['classic', 'cooperative', 'consumer'];
async function scene(
  kind: ClientKind,
  play: (scene: Scene) => Promise<void>,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  await playScene(kind, { ...SETTINGS, ...settings }, play);
}

/** Waits until the members hold all partitions of the topics between them, none twice, and as many each. */
async function share(
  it: Scene,
  what: string,
  members: readonly ClientDriver[],
  topics: readonly string[],
): Promise<void> {
  const all = topics.flatMap((topic) => Array.from({ length: PARTITIONS }, (_, n) => `${topic}-${n}`)).sort();
  await it.until(what, () => {
    const held = members.flatMap((member) => member.assignment).sort();
    const even = members.every((member) => member.assignment.length === all.length / members.length);
    return even && held.join() === all.join();
  });
}

/** A record as one line, without its place. */
function line(record: Pick<DriverRecord, 'key' | 'value' | 'headers'>): string {
  const headers = Object.entries(record.headers).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([record.key, record.value, headers]);
}

/** What a produce command of this makes. */
function expected(prefix: string, count: number, size = 0, nulls = false): string[] {
  return Array.from({ length: count }, (_, n) =>
    line({
      key: nulls && n % 10 === 9 ? null : `${prefix}key ${n}`,
      value: nulls && n % 10 === 8 ? null : `${prefix}${n} `.padEnd(size, '=+'),
      headers: { n: String(n), from: prefix },
    }),
  ).sort();
}

/** All records of one produce command that these members were given. One that came again from the same place counts once:
 * a client may read from the committed offset again after a rebalance. */
function given(members: readonly ClientDriver[], prefix: string): string[] {
  const places = new Map(
    members
      .flatMap(({ records }) => records.filter(({ headers }) => headers.from === prefix))
      .map((record) => [`${record.topic} ${record.partition} ${record.offset}`, line(record)]),
  );
  return [...places.values()].sort();
}

/** The offset after the last record that any of the members was given, by `topic-partition`. */
function ends(members: readonly ClientDriver[], topic: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const record of members.flatMap(({ records }) => records)) {
    const partition = `${record.topic}-${record.partition}`;
    if (record.topic === topic) found[partition] = Math.max(found[partition] ?? 0, record.offset + 1);
  }
  return found;
}

/** Waits for the records of one produce command, and sees that each is there once and whole. */
async function receive(
  it: Scene,
  members: readonly ClientDriver[],
  wanted: string[],
  prefix: string,
): Promise<void> {
  await it.until(
    `all ${wanted.length} records of "${prefix}"`,
    () => new Set(given(members, prefix)).size >= new Set(wanted).size,
  );
  expect(given(members, prefix)).toEqual(wanted);
}

function noErrors(members: readonly ClientDriver[]): void {
  expect(members.flatMap(({ errors }) => errors)).toEqual([]);
}

async function records(it: Scene): Promise<void> {
  const driver = await it.driver();
  const { codecs, protocols } = driver.ready!;
  // The topic is not there: the first send is to make it, and to show no error.
  await driver.produce({ topic: 'records', count: 1, prefix: 'first ' });
  const rounds: [prefix: string, count: number, size: number, nulls: boolean][] = [['first ', 1, 0, false]];
  for (const codec of CODECS) {
    if (!codecs.includes(codec)) {
      unable(driver.ready!, `codec ${codec}`);
      continue;
    }
    const small = [`${codec} small `, 200, 0, true] as const;
    const batches = Array.from(
      { length: scaled(1, 20) },
      (_, n) => [`${codec} batch ${n} `, 1_000, 1_000, false] as const,
    );
    const big = [`${codec} big `, 1, 900_000, false] as const;
    for (const [prefix, count, size, nulls] of [small, ...batches, big]) {
      await driver.produce({ topic: 'records', codec, prefix, count, size, nulls });
      rounds.push([prefix, count, size, nulls]);
    }
  }
  if (driver.ready!.features.includes('idempotent')) {
    for (const prefix of ['once ', 'and once more ']) {
      await driver.produce({ topic: 'records', idempotent: true, prefix, count: 500, size: 100 });
      rounds.push([prefix, 500, 100, false]);
    }
  } else unable(driver.ready!, 'idempotent producer');
  const reader = await it.driver();
  const join = { group: 'readers', protocol: protocols[0]!, sessionTimeoutMs: LONG_SESSION_MS };
  await reader.join({ ...join, topics: ['records'] });
  for (const [prefix, count, size, nulls] of rounds) {
    await receive(it, [reader], expected(prefix, count, size, nulls), prefix);
  }
  const sum = rounds.reduce((total, [, count]) => total + count, 0);
  expect(new Set(reader.records.map(({ partition, offset }) => `${partition} ${offset}`)).size).toBe(sum);
  noErrors([driver, reader]);
}

async function group(it: Scene, protocol: GroupProtocol): Promise<void> {
  const producer = await it.driver();
  const join = { group: 'workers', protocol, topics: ['work'] };
  const members = async (count: number, sessionTimeoutMs = LONG_SESSION_MS) => {
    const drivers = await Promise.all(Array.from({ length: count }, () => it.driver()));
    for (const driver of drivers) await driver.join({ ...join, sessionTimeoutMs });
    return drivers;
  };
  const work = async (prefix: string, readers: readonly ClientDriver[]) => {
    await producer.produce({ topic: 'work', prefix, count: 100 });
    await receive(it, readers, expected(prefix, 100), prefix);
    for (const reader of readers) await reader.commit();
  };
  await producer.produce({ topic: 'work', prefix: 'before ', count: 100 });

  const [first, second] = (await members(2)) as [ClientDriver, ClientDriver];
  await share(it, 'an even share of two', [first, second], ['work']);
  await it.until('what was there before', () => new Set(given([first, second], 'before ')).size === 100);
  await work('two ', [first, second]);

  await second.leave();
  await share(it, 'all for who stays', [first], ['work']);
  await work('one stays ', [first]);

  const [third] = (await members(1, SHORT_SESSION_MS)) as [ClientDriver];
  await share(it, 'an even share with a newcomer', [first, third], ['work']);
  await work('two again ', [first, third]);

  await third.kill();
  await share(it, 'all for who survives', [first], ['work']);
  await work('one survives ', [first]);

  for (const [prefix, end] of [
    ['restarted ', () => it.server.restart()],
    ['crashed ', () => it.server.crash()],
  ] as const) {
    await end();
    await producer.produce({ topic: 'work', prefix, count: 100 });
    await it.until(`all records of "${prefix}"`, () => new Set(given([first], prefix)).size === 100);
    // A producer that isn't idempotent may have sent some again while the broker was away.
    expect([...new Set(given([first], prefix))]).toEqual(expected(prefix, 100));
    await first.commit();
  }
  const committed = await first.committed(['work']);
  expect(committed).toEqual(ends(it.drivers, 'work'));
  await first.leave();

  const [last] = (await members(1)) as [ClientDriver];
  await share(it, 'all for the last', [last], ['work']);
  await work('last ', [last]);
  expect([...new Set(last.records.map(({ headers }) => headers.from))]).toEqual(['last ']);
  noErrors([producer, first, second, last]);
}

async function staticMembers(it: Scene, protocol: GroupProtocol): Promise<void> {
  const join = { group: 'static', protocol, sessionTimeoutMs: LONG_SESSION_MS, topics: ['static'] };
  const producer = await it.driver();
  await producer.produce({ topic: 'static', prefix: 'before ', count: 10 });
  const [one, two, again] = [await it.driver(), await it.driver(), await it.driver()];
  await one.join({ ...join, instanceId: 'one' });
  await two.join({ ...join, instanceId: 'two' });
  await share(it, 'an even share', [one, two], ['static']);
  const told = one.assignments.length;
  const held = two.assignment;
  // In the consumer protocol an instance is free when its member says that it will be back, or its session ends.
  if (protocol === 'consumer') await two.leave();
  else await two.kill();
  await again.join({ ...join, instanceId: 'two' });
  await again.until('what it held before', () => again.assignment.length === held.length);
  expect(again.assignment).toEqual(held);
  expect(one.assignments.length).toBe(told);
  noErrors([producer, one, again]);
}

async function regex(it: Scene, protocol: GroupProtocol): Promise<void> {
  const producer = await it.driver();
  for (const topic of ['wanted.a', 'wanted.b', 'other']) {
    await producer.produce({ topic, prefix: `${topic} `, count: 20 });
  }
  const reader = await it.driver();
  const join = { group: 'patterns', protocol, sessionTimeoutMs: LONG_SESSION_MS };
  await reader.join({ ...join, pattern: '^wanted[.].*' });
  await share(it, 'the topics that match', [reader], ['wanted.a', 'wanted.b']);
  for (const topic of ['wanted.a', 'wanted.b'])
    await receive(it, [reader], expected(`${topic} `, 20), `${topic} `);
  if (reader.ready!.features.includes('regex-later')) {
    await producer.produce({ topic: 'wanted.c', prefix: 'wanted.c ', count: 20 });
    await share(it, 'a topic that came later', [reader], ['wanted.a', 'wanted.b', 'wanted.c']);
    await it.until('its records', () => new Set(given([reader], 'wanted.c ')).size === 20);
  } else unable(reader.ready!, 'pattern that finds topics made later');
  expect(given([reader], 'other ')).toEqual([]);
  noErrors([producer, reader]);
}

/** Runs a scenario of a group if the client has the protocol and the feature. */
async function withProtocols(
  kind: ClientKind,
  protocol: GroupProtocol,
  feature: 'static' | 'regex' | undefined,
  play: (scene: Scene, protocol: GroupProtocol) => Promise<void>,
): Promise<void> {
  const ready = await abilitiesOf(kind);
  if (!ready.protocols.includes(protocol)) return unable(ready, `${protocol} protocol`);
  const needed = feature === 'static' && protocol === 'consumer' ? 'static-consumer' : feature;
  if (needed !== undefined && !ready.features.includes(needed))
    return unable(ready, `${protocol} ${feature}`);
  // Nobody dies in the scenario of static members: none is to be missed by a busy machine.
  const settings = { 'group.consumer.session.timeout.ms': String(LONG_SESSION_MS) };
  await scene(kind, (it) => play(it, protocol), feature === 'static' ? settings : {});
}

for (const kind of chosen(CLIENTS)) {
  describe.concurrent(kind.name, () => {
    it('makes a topic, writes and reads records with each codec', () => scene(kind, records));
    for (const protocol of PROTOCOLS) {
      it(`shares, leaves, dies and goes on in a ${protocol} group`, () =>
        withProtocols(kind, protocol, undefined, group));
      it(`keeps the place of a static member in a ${protocol} group`, () =>
        withProtocols(kind, protocol, 'static', staticMembers));
      it(`reads the topics that match a pattern in a ${protocol} group`, () =>
        withProtocols(kind, protocol, 'regex', regex));
    }
  });
}
