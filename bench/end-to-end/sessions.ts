/** Polls of 1,000 partitions in a fetch session, against the same without one and against Apache Kafka's (which needs it). */
import { readFileSync } from 'node:fs';
import { APIS } from '../../src/client/apis.ts';
import { Connection } from '../../src/client/connection.ts';
import { batchOf } from '../batches.ts';
import { type Server, startBroadsheet, startKafka, type Target, withTopic } from '../broker-load.ts';
import { type Comparison, compare, type Measurement, type Scale } from '../support.ts';

const PARTITIONS = 1000;
/** The one that gets records. */
const BUSY = 500;
const BATCH_BYTES = 200;
const LONGEST_WAIT_MS = 10_000;
const FETCH_MAX_BYTES = 50 << 20;
/** The last versions that name topics by name. */
const FETCH_VERSION = 12;
const PRODUCE_VERSION = 12;
const KAFKA_PORT = 22_294;
const TICKS_PER_SECOND = 100;

/** What all threads of a process used of the processor so far, seconds. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function connect({ port }: Target): Promise<Connection> {
  return Connection.connect({ host: '127.0.0.1', port });
}

/** A consumer of all partitions of a topic. */
class Poller {
  readonly #connection: Connection;
  readonly #topic: string;
  readonly #inSession: boolean;
  #sessionId = 0;
  #epoch: number;
  #offset = 0;
  #moved = false;

  constructor(connection: Connection, topic: string, inSession: boolean) {
    this.#connection = connection;
    this.#topic = topic;
    this.#inSession = inSession;
    this.#epoch = inSession ? 0 : -1;
  }

  /** Gives how many batches came. */
  async poll(maxWaitMs: number): Promise<number> {
    const partition = (index: number) => ({
      partition: index,
      fetchOffset: index === BUSY ? this.#offset : 0,
      partitionMaxBytes: 1 << 20,
    });
    const partitions =
      this.#epoch > 0
        ? this.#moved
          ? [partition(BUSY)]
          : []
        : Array.from({ length: PARTITIONS }, (_, index) => partition(index));
    const answer = await this.#connection.request(
      APIS.fetch,
      {
        maxWaitMs,
        minBytes: 1,
        maxBytes: FETCH_MAX_BYTES,
        sessionId: this.#sessionId,
        sessionEpoch: this.#epoch,
        topics: partitions.length === 0 ? [] : [{ topic: this.#topic, partitions }],
      },
      { version: FETCH_VERSION },
    );
    if (answer.errorCode !== 0) throw new Error(`a fetch was refused: ${answer.errorCode}`);
    if (this.#inSession) {
      if (answer.sessionId === 0) throw new Error('there is no session');
      this.#epoch = answer.sessionId === this.#sessionId ? this.#epoch + 1 : 1;
      this.#sessionId = answer.sessionId;
    }
    let batches = 0;
    this.#moved = false;
    for (const { partitions: told } of answer.responses) {
      for (const { partitionIndex, highWatermark, records, errorCode } of told) {
        if (errorCode !== 0) throw new Error(`partition ${partitionIndex}: ${errorCode}`);
        if (partitionIndex !== BUSY || records === null || records.length === 0) continue;
        batches += highWatermark - this.#offset;
        this.#offset = highWatermark;
        this.#moved = true;
      }
    }
    return batches;
  }

  close(): void {
    this.#connection.close();
  }
}

/** Polls as `use` does for so long; how many there were. */
async function polls(
  target: Target,
  topic: string,
  inSession: boolean,
  seconds: number,
  once: (poller: Poller, producer: Connection) => Promise<void>,
): Promise<Measurement> {
  const poller = new Poller(await connect(target), topic, inSession);
  const producer = await connect(target);
  try {
    while ((await poller.poll(0)) > 0);
    const [start, cpu] = [performance.now(), cpuSeconds(target.pid)];
    let count = 0;
    // The processor's time is told in hundredths of a second.
    while (count < 10 || performance.now() - start < seconds * 1000 || cpuSeconds(target.pid) === cpu) {
      await once(poller, producer);
      count++;
    }
    const took = (performance.now() - start) / 1000;
    return { perSecond: count / took, perCpuSecond: count / (cpuSeconds(target.pid) - cpu) };
  } finally {
    poller.close();
    producer.close();
  }
}

async function pollNothing(poller: Poller): Promise<void> {
  if ((await poller.poll(0)) > 0) throw new Error('there are records');
}

/** The poll waits when the record comes. */
function pollOne(topic: string, records: Uint8Array) {
  return async (poller: Poller, producer: Connection): Promise<void> => {
    const polled = poller.poll(LONGEST_WAIT_MS);
    const produced = producer.request(
      APIS.produce,
      {
        acks: 1,
        timeoutMs: 30_000,
        topicData: [{ name: topic, partitionData: [{ index: BUSY, records }] }],
      },
      { version: PRODUCE_VERSION },
    );
    const [batches] = await Promise.all([polled, produced]);
    if (batches === 0) throw new Error('the record did not come');
  };
}

interface Side extends Target {
  readonly topic: string;
  readonly inSession: boolean;
}

async function against(ours: Side, theirs: Side, other: string, scale: Scale): Promise<Comparison[]> {
  const records = batchOf(BATCH_BYTES);
  const loads: [string, (topic: string) => (poller: Poller, producer: Connection) => Promise<void>][] = [
    ['nothing is new', () => pollNothing],
    ['one partition gets a record', (topic) => pollOne(topic, records)],
  ];
  const results: Comparison[] = [];
  for (const [name, load] of loads) {
    const measure = (side: Side) => polls(side, side.topic, side.inSession, scale.seconds, load(side.topic));
    await measure(ours);
    await measure(theirs);
    results.push(
      await compare(
        `poll of ${PARTITIONS} partitions, ${name}, ${other}`,
        '/s',
        scale.rounds,
        () => measure(ours),
        () => measure(theirs),
      ),
    );
  }
  return results;
}

async function withServers<T>(
  servers: readonly Server[],
  use: (sides: readonly (Target & { topic: string })[]) => Promise<T>,
  sides: readonly (Target & { topic: string })[] = [],
): Promise<T> {
  const server = servers[sides.length];
  if (server === undefined) return use(sides);
  return withTopic(server, PARTITIONS, (topic) =>
    withServers(servers, use, [...sides, { ...server, topic }]),
  );
}

export async function sessions(scale: Scale): Promise<Comparison[]> {
  const broker = await startBroadsheet();
  try {
    return await withServers([broker], ([ours]) =>
      against({ ...ours!, inSession: true }, { ...ours!, inSession: false }, 'without a session', scale),
    );
  } finally {
    await broker.stop();
  }
}

export async function sessionsOfKafka(scale: Scale): Promise<Comparison[]> {
  const kafka = await startKafka(KAFKA_PORT);
  if (kafka === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  const broker = await startBroadsheet();
  try {
    return await withServers([broker, kafka], async ([ours, theirs]) => {
      const results: Comparison[] = [];
      for (const inSession of [true, false]) {
        const other = `Apache Kafka, ${inSession ? 'in a session' : 'without a session'}`;
        results.push(...(await against({ ...ours!, inSession }, { ...theirs!, inSession }, other, scale)));
      }
      return results;
    });
  } finally {
    await broker.stop();
    await kafka.stop();
  }
}
