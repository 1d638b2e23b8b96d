/** A sequence of requests in fetch sessions, sent to any broker, and what it answered in words that can be compared. */
import { APIS } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { errorName } from '../../src/protocol/errors.ts';

const UNKNOWN_ID = 'gggggggggggggggggggggg';
const NO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

interface Asked {
  readonly topic: string;
  readonly partition?: number;
  readonly offset?: number;
  readonly maxBytes?: number;
  readonly currentLeaderEpoch?: number;
  readonly lastFetchedEpoch?: number;
}

interface Poll {
  readonly version?: number;
  /** Default: the one opened last. */
  readonly session?: number;
  /** Default: the next one. */
  readonly epoch?: number;
  readonly topics?: readonly Asked[];
  readonly forget?: readonly Asked[];
  readonly maxBytes?: number;
  readonly minBytes?: number;
  readonly maxWaitMs?: number;
  readonly isolation?: number;
  readonly replicaId?: number;
  readonly on?: Connection;
}

/** One client of one broker, with topics whose names begin with `prefix`. */
export class SessionScript {
  readonly client: Client;
  readonly #address: string;
  readonly #prefix: string;
  readonly #connections: Connection[] = [];
  readonly #ids = new Map<string, string>();
  /** What each id was called when it was known. */
  readonly #names = new Map<string, string>([[UNKNOWN_ID, 'unknown']]);
  session = 0;
  epoch = 0;
  #version = 12;
  readonly lines: string[] = [];

  private constructor(client: Client, address: string, prefix: string) {
    this.client = client;
    this.#address = address;
    this.#prefix = prefix;
  }

  static async connect(address: string, prefix: string): Promise<SessionScript> {
    return new SessionScript(await Client.connect(address), address, prefix);
  }

  async another(): Promise<Connection> {
    const [host, port] = this.#address.split(':');
    const connection = await Connection.connect({ host: host!, port: Number(port) });
    await connection.negotiate();
    this.#connections.push(connection);
    return connection;
  }

  async create(topic: string, partitions: number): Promise<void> {
    const name = this.#prefix + topic;
    await this.client.createTopics([{ name, partitions }]);
    for (;;) {
      const { topics } = await this.client.metadata([name]);
      const found = topics.find((each) => each.name === name);
      const ready = found?.errorCode === 0 && found.partitions.length === partitions;
      if (ready && found.partitions.every((each) => each.errorCode === 0)) {
        const known = this.#ids.get(topic);
        if (known !== undefined) this.#names.set(known, `the old ${topic}`);
        this.#ids.set(topic, found.topicId);
        this.#names.set(found.topicId, topic);
        break;
      }
    }
    for (let index = 0; index < partitions; index++) {
      while (!(await this.client.listOffset(name, index, -1).then(Boolean, () => false)));
    }
  }

  async delete(topic: string): Promise<void> {
    const name = this.#prefix + topic;
    await this.client.deleteTopics([name]);
    for (;;) {
      const { topics } = await this.client.metadata([name]);
      if (topics[0]?.errorCode === 3) return;
    }
  }

  async produce(topic: string, partition = 0, value = 'x'.repeat(100)): Promise<void> {
    await this.client.produce(this.#prefix + topic, partition, [{ timestamp: 1_700_000_000_000, value }]);
  }

  #name(topic: string, version: number) {
    if (version < 13) return { topic: this.#prefix + topic };
    return { topicId: topic === 'unknown' ? UNKNOWN_ID : (this.#ids.get(topic) ?? NO_ID) };
  }

  async poll(what: string, poll: Poll = {}): Promise<void> {
    this.lines.push(`${what}: ${await this.ask(poll)}`);
  }

  /** What the answer says, but for the ids; partitions with errors last. */
  async ask(poll: Poll): Promise<string> {
    const version = poll.version ?? this.#version;
    this.#version = version;
    const session = poll.session ?? this.session;
    const epoch = poll.epoch ?? this.epoch;
    const connection = poll.on ?? this.client.connection;
    const response = await connection.request(
      APIS.fetch,
      {
        replicaId: poll.replicaId ?? -1,
        maxWaitMs: poll.maxWaitMs ?? 0,
        minBytes: poll.minBytes ?? 1,
        maxBytes: poll.maxBytes ?? 1 << 20,
        isolationLevel: poll.isolation ?? 0,
        sessionId: session,
        sessionEpoch: epoch,
        topics: (poll.topics ?? []).map((asked) => ({
          ...this.#name(asked.topic, version),
          partitions: [
            {
              partition: asked.partition ?? 0,
              fetchOffset: asked.offset ?? 0,
              partitionMaxBytes: asked.maxBytes ?? 1 << 20,
              currentLeaderEpoch: asked.currentLeaderEpoch ?? -1,
              lastFetchedEpoch: asked.lastFetchedEpoch ?? -1,
            },
          ],
        })),
        forgottenTopicsData: (poll.forget ?? []).map((asked) => ({
          ...this.#name(asked.topic, version),
          partitions: [asked.partition ?? 0],
        })),
      },
      { version },
    );
    const opened = response.sessionId !== 0 && response.sessionId !== session;
    if (opened) {
      this.session = response.sessionId;
      this.epoch = 1;
    } else if (response.errorCode === 0 && response.sessionId !== 0) this.epoch = epoch + 1;
    const which = response.sessionId === 0 ? 'no session' : opened ? 'a new session' : 'the session';
    const answers = response.responses.flatMap(({ topic, topicId, partitions: all }) =>
      all.map((each) => {
        const name = version < 13 ? topic.slice(this.#prefix.length) : (this.#names.get(topicId) ?? topicId);
        const { highWatermark, lastStableOffset, logStartOffset, divergingEpoch } = each;
        const diverging = divergingEpoch.endOffset >= 0 ? ` diverges at ${divergingEpoch.endOffset}` : '';
        const offsets = `${logStartOffset} ${lastStableOffset} ${highWatermark}`;
        const code = each.errorCode === 0 ? offsets : errorName(each.errorCode);
        const text = `${name}-${each.partitionIndex} ${code}${diverging}, ${each.records?.length ?? 'null'} bytes`;
        return { text, fine: each.errorCode === 0 };
      }),
    );
    const partitions = [true, false].flatMap((which) =>
      answers.filter(({ fine }) => fine === which).map(({ text }) => text),
    );
    return [errorName(response.errorCode), which, ...partitions].join('; ');
  }

  async close(): Promise<void> {
    for (const connection of this.#connections) connection.close();
    await this.client.close();
  }
}

/** Runs the whole sequence; a line for each request. */
export async function runSessionScript(address: string, prefix: string): Promise<string[]> {
  const script = await SessionScript.connect(address, prefix);
  try {
    await script.create('a', 3);
    await script.create('b', 1);
    await byName(script);
    await limits(script);
    await byId(script);
    await deletedByName(script);
    await deletedById(script);
    await twoConnections(script);
    await replicas(script);
    return script.lines;
  } finally {
    await script.close();
  }
}

async function byName(script: SessionScript): Promise<void> {
  const poll = script.poll.bind(script);
  const all = [0, 1, 2].map((partition) => ({ topic: 'a', partition }));
  await script.produce('a', 1);
  await poll('v6 has no sessions', { version: 6, topics: all });
  await poll('a full fetch that wants none', { version: 12, session: 0, epoch: -1, topics: all });
  await poll('one of a session that is not there', { session: 77, epoch: -1, topics: all });
  await poll('opens one instead of one that is not there', { session: 77, epoch: 0, topics: all });
  await poll('nothing was read: the same records again');
  await poll('one moves on', { topics: [{ topic: 'a', partition: 1, offset: 1 }] });
  await poll('nothing is new');
  await poll('read_committed now', { isolation: 1 });
  await poll('and not any more');
  await script.produce('a', 0);
  await script.produce('a', 2);
  await poll('two have records');
  await poll('no more than one batch fits', { maxBytes: 1 });
  await poll('then the other', { maxBytes: 1 });
  await poll('a wrong epoch', { epoch: 77 });
  await poll('a negative epoch', { epoch: -2 });
  await poll('epoch 0 of no session, nothing asked', { session: 0, epoch: 0 });
  await poll('goes on with a session of nothing');
  await poll('opens', { session: 0, epoch: 0, topics: all });
  await poll('a session that is not there', { session: 78 });
  await poll('the right one');
  await poll('moved to their ends', {
    topics: all.map((each) => ({ ...each, offset: 1 })),
  });
  await poll('asks the same again', { topics: [{ topic: 'a', partition: 0, offset: 1 }] });
  await poll('another is added', { topics: [{ topic: 'b' }] });
  await poll('which is told once');
  await poll('one out of range', { topics: [{ topic: 'b', offset: 5 }] });
  await poll('which is told again and again');
  await poll('back in range', { topics: [{ topic: 'b', offset: 0 }] });
  await poll('told once');
  await poll('one is forgotten', { forget: [{ topic: 'a', partition: 1 }] });
  await script.produce('a', 1);
  await poll('and not told any more');
  await poll('forgotten again, and one that never was there', {
    forget: [{ topic: 'a', partition: 1 }, { topic: 'none' }],
  });
  await poll('asked and forgotten at once', {
    topics: [{ topic: 'a', partition: 1, offset: 1 }],
    forget: [{ topic: 'a', partition: 1 }],
  });
  await poll('a partition that is not there', { topics: [{ topic: 'a', partition: 9 }] });
  await poll('still not');
  await poll('a topic that is not there', { topics: [{ topic: 'later' }] });
  await poll('nor now', { forget: [{ topic: 'a', partition: 9 }] });
  await script.create('later', 1);
  await poll('now it is', {});
  await poll('told once');
  await poll('a wrong leader epoch', { topics: [{ topic: 'later', currentLeaderEpoch: 5 }] });
  await poll('still wrong');
  await poll('a right one', { topics: [{ topic: 'later', currentLeaderEpoch: 0 }] });
  await poll('a last fetched epoch', {
    topics: [{ topic: 'a', partition: 0, offset: 1, lastFetchedEpoch: 0 }],
  });
  await poll('by id', { version: 13 });
  await poll('by name again, the same epoch', { version: 12 });
  await poll('an older version', { version: 7 });
  await poll('a newer version', { version: 12 });
  await poll('all are forgotten', {
    forget: [{ topic: 'a', partition: 0 }, { topic: 'a', partition: 2 }, { topic: 'b' }, { topic: 'later' }],
  });
  await poll('it is gone');
  await poll('opens', { session: 0, epoch: 0, topics: all });
  await poll('all are forgotten while one is added', {
    topics: [{ topic: 'b' }],
    forget: all,
  });
  const kept = script.session;
  await poll('opens another in its place', { epoch: 0, topics: all });
  await poll('the first is gone', { session: kept, epoch: 1 });
  await poll('ends it', { epoch: -1, topics: all });
  await poll('it is gone');
}

async function limits(script: SessionScript): Promise<void> {
  const poll = script.poll.bind(script);
  await script.create('many', 4);
  const all = [0, 1, 2, 3].map((partition) => ({ topic: 'many', partition }));
  await poll('opens', { session: 0, epoch: 0, topics: all });
  for (const partition of [0, 1, 2, 3]) await script.produce('many', partition);
  for (const round of [1, 2, 3, 4, 5, 6]) {
    await poll(`one batch each time, ${round}`, { maxBytes: 100 });
  }
}

async function byId(script: SessionScript): Promise<void> {
  const poll = script.poll.bind(script);
  await poll('opens by id', {
    version: 18,
    session: 0,
    epoch: 0,
    topics: [{ topic: 'b' }, { topic: 'unknown' }, { topic: 'a' }],
  });
  await poll('unknown again and again');
  await poll('the unknown one is forgotten', { forget: [{ topic: 'unknown' }] });
  await poll('an unknown one is added', { topics: [{ topic: 'unknown' }] });
  await poll('by name', { version: 12 });
  await poll('by id', { version: 18 });
  await poll('v13', { version: 13 });
}

async function deletedByName(script: SessionScript): Promise<void> {
  const poll = script.poll.bind(script);
  await script.create('gone', 1);
  await script.produce('gone');
  const topics = [{ topic: 'gone', offset: 1 }, { topic: 'b' }];
  await poll('opens by name', { version: 12, session: 0, epoch: 0, topics });
  await script.delete('gone');
  await poll('a topic is deleted');
  await poll('still');
  await script.create('gone', 1);
  await poll('and made again: the offset is none of its own');
  await script.produce('gone');
  await poll('until it has as many records');
  await poll('told once');
}

async function deletedById(script: SessionScript): Promise<void> {
  const poll = script.poll.bind(script);
  const topics = [{ topic: 'gone', offset: 1 }, { topic: 'b' }];
  await poll('opens by id', { version: 18, session: 0, epoch: 0, topics });
  await script.delete('gone');
  await poll('by id: a topic is deleted');
  await poll('by id: still');
  await script.create('gone', 1);
  await poll('by id: and made again');
  await poll('by id: asked by its new id', { topics: [{ topic: 'gone' }] });
}

async function twoConnections(script: SessionScript): Promise<void> {
  const topics = [{ topic: 'b' }];
  await script.poll('opens', { version: 12, session: 0, epoch: 0, topics });
  const other = await script.another();
  const waiting = script.ask({ epoch: 1, maxWaitMs: 1000, on: other });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await script.poll('asked again while a fetch waits', { epoch: 2 });
  script.lines.push(`the one that waits: ${await waiting}`);
  await script.poll('goes on', { epoch: 3 });
  const parked = script.ask({ epoch: 4, maxWaitMs: 1000, on: other });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await script.poll('ends the session of one that waits', { epoch: -1 });
  script.lines.push(`the one that waits: ${await parked}`);
}

async function replicas(script: SessionScript): Promise<void> {
  await script.poll('a replica', {
    version: 12,
    session: 0,
    epoch: 0,
    replicaId: 1,
    topics: [{ topic: 'b' }],
  });
}
