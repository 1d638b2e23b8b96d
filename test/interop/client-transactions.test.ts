/** Transactions of unmodified clients of many languages, the same scenarios for each: see test/interop/clients/README.md. */
import { describe, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { committedOffsets } from '../../src/client/groups.ts';
import {
  type ClientDriver,
  ClientFailure,
  type GroupProtocol,
  type Isolation,
} from '../support/client-driver.ts';
import { abilitiesOf, BRISK_GROUPS, chosen, playScene, type Scene, unable } from '../support/client-scene.ts';
import { CLIENTS, type ClientKind } from '../support/clients.ts';
import { scaled } from '../support/scale.ts';
import { TransactionScript } from '../support/transaction-script.ts';

const PARTITIONS = 4;
/** Records of a transaction. */
const COUNT = scaled(40, 1_000);
const ROUNDS = scaled(3, 12);
const CRASHES = scaled(2, 8);
/** Of transactions that nobody means to run out. */
const LONG_MS = 60_000;
/** Of one that is to be aborted by its timeout. */
const SHORT_MS = 2_000;
/** Of a member of a group: one that dies is missed after that. */
const SESSION_MS = 4_000;
/** A client that answers nothing for so long, after the broker was away, is started again. */
const PATIENCE_MS = 30_000;
const SETTINGS = {
  'num.partitions': String(PARTITIONS),
  ...BRISK_GROUPS,
  'group.consumer.session.timeout.ms': String(SESSION_MS),
  'transaction.abort.timed.out.transaction.cleanup.interval.ms': '500',
};
const FORGETFUL = {
  'transactional.id.expiration.ms': '4000',
  'transaction.remove.expired.transaction.cleanup.interval.ms': '200',
  'producer.id.expiration.ms': '4000',
  'producer.id.expiration.check.interval.ms': '200',
};
/** What runs at the smaller size. */
const QUICK = ['franz-go', 'kafka-clients-4.4'];
const KINDS = CLIENTS.filter(({ name }) => scaled(QUICK.includes(name), true));

/** A record as one line, without its place. */
const line = (key: string, value: string) => `${key}: ${value}`;

/** The values of each partition, in order. */
type Contents = string[][];

const nothing = (): Contents => Array.from({ length: PARTITIONS }, () => []);

/** What send commands with these prefixes leave, one after the other. */
function sent(prefixes: readonly string[], count: number = COUNT): Contents {
  const all = nothing();
  for (const prefix of prefixes) {
    for (let n = 0; n < count; n++) all[n % PARTITIONS]!.push(line(`${prefix}key ${n}`, `${prefix}${n} `));
  }
  return all;
}

const transformed = (contents: Contents): Contents =>
  contents.map((partition) =>
    partition.map((each) => {
      const [key, value] = each.split(': ');
      return line(key!, value!.toUpperCase());
    }),
  );

/** A scene with an eye of our own on the topics. */
class Stage {
  readonly scene: Scene;
  client: Client;

  private constructor(scene: Scene, client: Client) {
    this.scene = scene;
    this.client = client;
  }

  static async open(scene: Scene, topics: readonly string[]): Promise<Stage> {
    const stage = new Stage(scene, await Client.connect(scene.server.address));
    await stage.client.createTopics(topics.map((name) => ({ name, partitions: PARTITIONS })));
    await scene.until('all partitions to be led', () =>
      Promise.all(topics.map((topic) => stage.ends(topic))).then(
        () => true,
        () => false,
      ),
    );
    return stage;
  }

  driver(): Promise<ClientDriver> {
    return this.scene.driver();
  }

  async crash(): Promise<void> {
    await this.client.close();
    await this.scene.server.crash();
    this.client = await Client.connect(this.scene.server.address);
  }

  ends(topic: string): Promise<number[]> {
    const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition);
    return Promise.all(
      partitions.map(async (partition) => (await this.client.listOffset(topic, partition, LATEST)).offset),
    );
  }

  async contents(topic: string, isolation: Isolation): Promise<Contents> {
    const all = nothing();
    const committedOnly = isolation === 'read_committed';
    for (const [partition, lines] of all.entries()) {
      for await (const { key, value } of this.client.records(topic, partition, 0, { committedOnly })) {
        lines.push(line(Buffer.from(key ?? []).toString(), Buffer.from(value ?? []).toString()));
      }
    }
    return all;
  }

  /** Waits until a topic has exactly these records: markers may follow an answer. */
  async shows(topic: string, isolation: Isolation, wanted: Contents): Promise<void> {
    let found = nothing();
    const text = JSON.stringify(wanted);
    await this.scene
      .until(`${isolation} records of ${topic}`, async () => {
        found = await this.contents(topic, isolation);
        return JSON.stringify(found) === text;
      })
      .catch((error: Error) => {
        process.stderr.write(`${error.message}\n`);
        expect(found).toEqual(wanted);
      });
  }

  /** Waits until a member was given exactly these records, in order. One that came again from the same place counts once. */
  async gives(member: ClientDriver, topic: string, wanted: Contents): Promise<void> {
    const found = () => {
      const all = nothing();
      const places = new Set<string>();
      for (const record of member.records) {
        const place = `${record.partition} ${record.offset}`;
        if (record.topic !== topic || places.has(place)) continue;
        places.add(place);
        all[record.partition]!.push(line(record.key ?? '', record.value ?? ''));
      }
      return all;
    };
    const count = (contents: Contents) => contents.flat().length;
    await this.scene.until(`${count(wanted)} records`, () => count(found()) >= count(wanted));
    expect(found()).toEqual(wanted);
    expect(member.errors).toEqual([]);
  }

  /** Records of the input that the group has not committed. */
  async outstanding(topic: string, group: string): Promise<number> {
    const ends = await this.ends(topic);
    const committed = await committedOffsets(this.client, group);
    const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
    return sum(ends) - sum(committed.map(({ offset }) => offset));
  }

  async committed(group: string): Promise<Record<string, number>> {
    const found = await committedOffsets(this.client, group);
    return Object.fromEntries(found.map(({ topic, partition, offset }) => [`${topic}-${partition}`, offset]));
  }

  /** One that takes over a transactional id and reads `in` in the group `workers`. */
  async worker(protocol: GroupProtocol): Promise<ClientDriver> {
    const worker = await this.driver();
    await worker.init('worker', LONG_MS);
    const member = { group: 'workers', protocol, topics: ['in'], sessionTimeoutMs: SESSION_MS };
    await worker.join({ ...member, isolation: 'read_committed' });
    return worker;
  }
}

async function whole(
  writer: ClientDriver,
  topic: string,
  prefix: string,
  commit: boolean,
  meanwhile = async () => {},
): Promise<void> {
  await writer.begin();
  await writer.send({ topic, prefix, count: COUNT, partitions: PARTITIONS });
  await meanwhile();
  await writer.end(commit);
}

async function commitsAndAborts(scene: Scene): Promise<void> {
  const stage = await Stage.open(scene, ['topic']);
  const writer = await stage.driver();
  const readers = await Promise.all(
    (['read_committed', 'read_uncommitted'] as const).map(async (isolation) => {
      const reader = await stage.driver();
      const protocol = reader.ready!.protocols[0]!;
      const member = { group: isolation, protocol, topics: ['topic'], sessionTimeoutMs: LONG_MS };
      await reader.join({ ...member, isolation });
      return [isolation, reader] as const;
    }),
  );
  await writer.init('writer', LONG_MS);
  const kept: string[] = [];
  const all: string[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const prefix = `round ${round} `;
    const commit = round % 2 === 0 || round === ROUNDS;
    all.push(prefix);
    await whole(writer, 'topic', prefix, commit, async () => {
      await stage.shows('topic', 'read_committed', sent(kept));
      await stage.shows('topic', 'read_uncommitted', sent(all));
    });
    if (commit) kept.push(prefix);
    await stage.shows('topic', 'read_committed', sent(kept));
  }
  for (const [isolation, reader] of readers) {
    const wanted = sent(isolation === 'read_committed' ? kept : all);
    await stage.shows('topic', isolation, wanted);
    await stage.gives(reader, 'topic', wanted);
  }
}

/** What a client says when another has taken its transactional id. Of librdkafka only the first call names the reason, sarama
 * knows the code of PRODUCER_FENCED by its number. */
const FENCED = /fenced|epoch|Local: Fatal error|Error code = 90$/i;

async function fences(scene: Scene): Promise<void> {
  const stage = await Stage.open(scene, ['topic']);
  const failure = async (what: Promise<unknown>) => {
    const error: unknown = await what.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(ClientFailure);
    const { answer } = error as ClientFailure;
    process.stderr.write(`${first.ready!.client}, fenced: ${answer.split('\n')[0]}\n`);
    expect(answer).toMatch(FENCED);
  };
  const [first, second, third] = [await stage.driver(), await stage.driver(), await stage.driver()];
  await first.init('one', LONG_MS);
  await first.begin();
  await first.send({ topic: 'topic', prefix: 'lost ', count: COUNT, partitions: PARTITIONS });
  await second.init('one', LONG_MS);
  await failure(first.end(true));
  await whole(second, 'topic', 'second ', true);
  await third.init('one', LONG_MS);
  await failure(whole(second, 'topic', 'late ', true));
  await whole(third, 'topic', 'third ', true);
  await stage.shows('topic', 'read_committed', sent(['second ', 'third ']));
  await whole(third, 'topic', 'more ', false);
  await stage.shows('topic', 'read_committed', sent(['second ', 'third ']));
}

async function dies(scene: Scene): Promise<void> {
  const stage = await Stage.open(scene, ['topic']);
  const [brief, taken, other] = [await stage.driver(), await stage.driver(), await stage.driver()];
  await other.init('other', LONG_MS);
  // Nobody takes over its id: its timeout ends the transaction.
  await brief.init('brief', SHORT_MS);
  await brief.begin();
  await brief.send({ topic: 'topic', prefix: 'brief ', count: COUNT, partitions: PARTITIONS });
  await brief.kill();
  await whole(other, 'topic', 'first ', true);
  await stage.shows('topic', 'read_committed', sent(['first ']));
  const heir = await stage.driver();
  await heir.init('brief', SHORT_MS);
  await whole(heir, 'topic', 'second ', true);
  await stage.shows('topic', 'read_committed', sent(['first ', 'second ']));
  // The next with the id ends it.
  await taken.init('taken', LONG_MS);
  await taken.begin();
  await taken.send({ topic: 'topic', prefix: 'taken ', count: COUNT, partitions: PARTITIONS });
  await taken.kill();
  await whole(other, 'topic', 'third ', true);
  await heir.init('taken', LONG_MS);
  await whole(heir, 'topic', 'fourth ', true);
  await stage.shows('topic', 'read_committed', sent(['first ', 'second ', 'third ', 'fourth ']));
  const all = ['brief ', 'first ', 'second ', 'taken ', 'third ', 'fourth '];
  await stage.shows('topic', 'read_uncommitted', sent(all));
}

async function transforms(scene: Scene, protocol: GroupProtocol): Promise<void> {
  const stage = await Stage.open(scene, ['in', 'out']);
  const writer = await stage.driver();
  await writer.init('writer', LONG_MS);
  let worker = await stage.worker(protocol);
  const prefixes: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const prefix = `round ${round} `;
    await whole(writer, 'in', `aborted ${prefix}`, false);
    await whole(writer, 'in', prefix, true);
    const before = await stage.committed('workers');
    const attempt = async () => {
      await worker.begin();
      await worker.transform('out', COUNT);
      expect(await stage.committed('workers')).toEqual(before);
      await stage.shows('out', 'read_committed', transformed(sent(prefixes)));
    };
    await attempt();
    if (round % 3 === 1) {
      await worker.end(false);
      expect(await stage.committed('workers')).toEqual(before);
      await attempt();
    }
    if (round % 3 === 2) {
      await worker.kill();
      worker = await stage.worker(protocol);
      await attempt();
    }
    await worker.end(true);
    prefixes.push(prefix);
    await stage.shows('out', 'read_committed', transformed(sent(prefixes)));
  }
  // The position after the last record: behind it is the marker alone.
  const ends = (await stage.ends('in')).map((end, partition) => [`in-${partition}`, end - 1]);
  expect(await stage.committed('workers')).toEqual(Object.fromEntries(ends));
}

class Silence extends Error {}

/** Fails when the client stays silent, as one that lives on with nothing to do would. */
async function soon(what: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Silence()), PATIENCE_MS);
  });
  await Promise.race([what, late]).finally(() => clearTimeout(timer));
}

async function outlivesCrashes(scene: Scene, protocol: GroupProtocol): Promise<void> {
  const stage = await Stage.open(scene, ['in', 'out']);
  let worker = await stage.worker(protocol);
  const prefixes: string[] = [];
  const paths: string[] = [];
  for (let round = 0; round < CRASHES; round++) {
    const prefix = `round ${round} `;
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const records = Array.from({ length: COUNT / PARTITIONS }, (_, i) => i * PARTITIONS + partition);
      const made = records.map((n) => ({ key: `${prefix}key ${n}`, value: `${prefix}${n} ` }));
      await stage.client.produce(
        'in',
        partition,
        made.map((each) => ({ timestamp: Date.now(), ...each })),
      );
    }
    prefixes.push(prefix);
    const attempt = async (count: number, end: () => Promise<void>) => {
      await worker.begin();
      await worker.transform('out', count);
      await end();
    };
    const commit = () => worker.end(true);
    const path: string[] = [];
    /** Says whether the worker can be told more. */
    const failed = (error: unknown): boolean => {
      const text = error instanceof ClientFailure ? error.answer.split('\n')[0]!.slice(0, 80) : String(error);
      path.push(error instanceof Silence ? 'silent' : text);
      return !(error instanceof Silence);
    };
    /** The way that the library leaves to its application. */
    const goOn = async (first: Promise<void>) => {
      let answers = true;
      try {
        await soon(first);
        path.push('committed');
        return;
      } catch (error) {
        answers = failed(error);
      }
      for (let tries = 0; tries < 3 && answers; tries++) {
        try {
          await soon(worker.end(false));
          path.push('aborted');
          await soon(attempt(COUNT, commit));
          path.push('committed');
          return;
        } catch (error) {
          answers = failed(error);
        }
      }
      await worker.kill();
      worker = await stage.worker(protocol);
      path.push('started again');
      const left = await stage.outstanding('in', 'workers');
      if (left > 0) await attempt(left, commit);
    };
    if (round % 2 === 0) {
      await goOn(
        attempt(COUNT, async () => {
          await stage.crash();
          await commit();
        }),
      );
    } else {
      await worker.begin();
      const away = stage.crash();
      const rest = worker.transform('out', COUNT).then(commit);
      rest.catch(() => {});
      await away;
      await goOn(rest);
    }
    paths.push(path.join(', '));
    await stage.shows('out', 'read_committed', transformed(sent(prefixes)));
    expect(await stage.outstanding('in', 'workers')).toBe(0);
  }
  process.stderr.write(`${worker.ready!.client}, when the broker crashed: ${paths.join(' | ')}\n`);
}

/** After its transactional id and its producer ids were forgotten, a client that still runs goes on. */
async function isForgotten(scene: Scene): Promise<void> {
  const stage = await Stage.open(scene, ['topic', 'plain']);
  const script = new TransactionScript(stage.client.connection);
  const writer = await stage.driver();
  await writer.init('writer', LONG_MS);
  await whole(writer, 'topic', 'first ', true);
  await writer.produce({ topic: 'plain', prefix: 'first ', count: COUNT, idempotent: true });
  await scene.until('the transactional id to be forgotten', async () => {
    await script.list({});
    return script.lines.at(-1)!.includes(' NONE []');
  });
  for (const topic of ['topic', 'plain']) {
    for (let partition = 0; partition < PARTITIONS; partition++) {
      await scene.until('the producers to be forgotten', async () => {
        await script.producers(topic, partition);
        return script.lines.at(-1)!.endsWith(' NONE []');
      });
    }
  }
  const path: string[] = [];
  for (let tries = 0; path.at(-1) !== 'committed'; tries++) {
    try {
      if (tries > 0) {
        await writer.end(false);
        path.push('aborted');
      }
      await whole(writer, 'topic', 'second ', true);
      path.push('committed');
    } catch (error) {
      path.push((error as ClientFailure).answer.split('\n')[0]!.slice(0, 120));
      if (tries < 3) continue;
      // Not by itself: its application makes a new producer.
      await writer.init('writer', LONG_MS);
      await whole(writer, 'topic', 'second ', true);
      path.push('made a new producer', 'committed');
    }
  }
  process.stderr.write(`${writer.ready!.client}, when it was forgotten: ${path.join(', ')}\n`);
  await stage.shows('topic', 'read_committed', sent(['first ', 'second ']));
  await writer.produce({ topic: 'plain', prefix: 'second ', count: COUNT, idempotent: true });
  const lines = (await stage.contents('plain', 'read_committed')).flat().sort();
  expect(lines).toEqual(sent(['first ', 'second ']).flat().sort());
}

async function play(
  kind: ClientKind,
  scenario: (scene: Scene) => Promise<void>,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  const ready = await abilitiesOf(kind);
  if (!ready.features.includes('transactions')) return unable(ready, 'transactions');
  await playScene(kind, { ...SETTINGS, ...settings }, scenario);
}

for (const kind of chosen(KINDS)) {
  describe.concurrent(kind.name, () => {
    it('commits and aborts', () => play(kind, commitsAndAborts));
    it('is fenced by who takes over its transactional id', () => play(kind, fences));
    it('dies in a transaction', () => play(kind, dies));
    it('goes on when its ids were forgotten', () => play(kind, isForgotten, FORGETFUL));
    for (const protocol of scaled<GroupProtocol[]>(['classic'], ['classic', 'consumer'])) {
      const withProtocol =
        (scenario: (scene: Scene, protocol: GroupProtocol) => Promise<void>) => async (): Promise<void> => {
          const ready = await abilitiesOf(kind);
          if (!ready.protocols.includes(protocol)) return unable(ready, `${protocol} protocol`);
          if (protocol === 'consumer' && !ready.features.includes('transactions-consumer'))
            return unable(ready, 'transactions with offsets of the consumer protocol');
          await play(kind, (scene) => scenario(scene, protocol));
        };
      it(`transforms with offsets of a ${protocol} group`, withProtocol(transforms));
      it(`outlives crashes of the broker in a ${protocol} group`, withProtocol(outlivesCrashes));
    }
  });
}
