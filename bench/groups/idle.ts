/** Suite `idle`: consumers that wait for records, each with one partition, a connection and a fetch session of its own: what they
 * cost the broker, and how soon one of them has a record that is appended. */
import { setTimeout as sleep } from 'node:timers/promises';
import { APIS } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import type { FetchResponse } from '../../src/protocol/generated/Fetch.ts';
import { type Target, withTopic } from '../broker-load.ts';
import {
  type Comparison,
  type Cost,
  compareCosts,
  median,
  processCpuSecondsOf,
  type Scale,
} from '../support.ts';
import { withPeers } from './peers.ts';

const CONSUMERS_PER_MEMBER = 5;
/** The last version that names topics by name. */
const FETCH_VERSION = 12;
/** The Java consumer's defaults. */
const MAX_WAIT_MS = 500;
const MAX_BYTES = 50 << 20;
const PARTITION_BYTES = 1 << 20;
/** Of the scale's seconds: how long CPU is counted, and how many records a second's worth are. */
const CPU_SECONDS = 10;
const RECORDS = 500;

class IdleConsumer {
  readonly #topic: string;
  readonly #partition: number;
  #connection!: Connection;
  #offset = 0;
  #stopped = false;
  #ended: Promise<void> | undefined;
  /** Called when a record has come. */
  received: () => void = () => {};

  constructor(topic: string, partition: number) {
    this.#topic = topic;
    this.#partition = partition;
  }

  async start(port: number): Promise<void> {
    this.#connection = await Connection.connect({ host: '127.0.0.1', port });
    this.#ended = this.#run();
  }

  async #run(): Promise<void> {
    let sessionId = 0;
    let sessionEpoch = 0;
    let tells = true;
    while (!this.#stopped) {
      const answer: FetchResponse = await this.#connection.request(
        APIS.fetch,
        {
          maxWaitMs: MAX_WAIT_MS,
          minBytes: 1,
          maxBytes: MAX_BYTES,
          sessionId,
          sessionEpoch,
          topics: tells ? [{ topic: this.#topic, partitions: [this.#position()] }] : [],
        },
        { version: FETCH_VERSION },
      );
      const { errorCode } = answer;
      const isLost =
        errorCode === KafkaError.FETCH_SESSION_ID_NOT_FOUND ||
        errorCode === KafkaError.INVALID_FETCH_SESSION_EPOCH;
      if (errorCode !== KafkaError.NONE && !isLost) throw new Error(`a fetch was refused with ${errorCode}`);
      sessionId = isLost ? 0 : answer.sessionId;
      sessionEpoch = sessionId === 0 ? 0 : sessionEpoch + 1;
      const records = answer.responses[0]?.partitions[0]?.records;
      const isNew = records !== undefined && records !== null && records.length > 0;
      tells = isNew || sessionId === 0;
      if (isNew) {
        this.#offset++;
        this.received();
      }
    }
  }

  #position() {
    return {
      partition: this.#partition,
      fetchOffset: this.#offset,
      partitionMaxBytes: PARTITION_BYTES,
    };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#ended;
    this.#connection.close();
  }
}

async function latencies(
  target: Target,
  topic: string,
  consumers: readonly IdleConsumer[],
  count: number,
): Promise<number[]> {
  const client = await Client.connect(`127.0.0.1:${target.port}`);
  const found: number[] = [];
  // As many rounds again before, for whoever compiles while running.
  for (let i = -count; i < count; i++) {
    const partition = (((i * 7919) % consumers.length) + consumers.length) % consumers.length;
    const began = performance.now();
    const received = new Promise<number>((resolve) => {
      consumers[partition]!.received = () => resolve(performance.now() - began);
    });
    await client.produce(topic, partition, [
      { timestamp: Date.now(), key: null, value: Buffer.alloc(100, 'x'), headers: [] },
    ]);
    const ms = await received;
    if (i >= 0) found.push(ms);
    await sleep(2);
  }
  await client.close();
  return found.sort((a, b) => a - b);
}

async function measure(target: Target, count: number, seconds: number): Promise<Record<string, Cost>> {
  return withTopic(target, count, async (topic) => {
    const consumers = Array.from({ length: count }, (_, partition) => new IdleConsumer(topic, partition));
    for (const consumer of consumers) await consumer.start(target.port);
    // The first polls, and whoever compiles while running.
    await sleep(CPU_SECONDS * seconds * 1000);
    const cpu = processCpuSecondsOf(target.pid);
    const began = performance.now();
    await sleep(CPU_SECONDS * seconds * 1000);
    const share = ((processCpuSecondsOf(target.pid) - cpu) * 1000) / (performance.now() - began);
    const sorted = await latencies(target, topic, consumers, Math.max(10, Math.round(RECORDS * seconds)));
    await Promise.all(consumers.map((consumer) => consumer.stop()));
    return {
      'share of a core': { value: share, unit: 'cores' },
      'append to receive, p50': { value: median(sorted), unit: 'ms' },
      'append to receive, p99': { value: sorted[Math.floor(sorted.length * 0.99)]!, unit: 'ms' },
    };
  });
}

/** Against Apache Kafka; against another broadsheet where `peer` says so. */
export function idleConsumers(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const { members, rounds, seconds } = scale;
  const count = members * CONSUMERS_PER_MEMBER;
  return withPeers(peer, (ours, theirs) =>
    compareCosts(
      rounds,
      () => measure(ours, count, seconds),
      () => measure(theirs, count, seconds),
    ),
  );
}
