/**
 * Fetches from many partitions: one request at a time to each leader, the next one on its way while the caller works on
 * what came. What can be tried again is.
 */
import { KafkaError, RETRIABLE } from '../protocol/errors.ts';
import type { FetchResponsePartitionData } from '../protocol/generated/Fetch.ts';
import type { RecordView } from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { APIS } from './apis.ts';
import { BrokerRefusal, type Client, FIRST_FETCH_BY_ID, hasId } from './client.ts';
import { decodeFetched } from './fetched.ts';
import { byLeader, byTopic, type PartitionOf, partitionName } from './offsets.ts';
import { retriable, sleep } from './producer.ts';

export interface FetcherOptions {
  readonly committedOnly?: boolean;
  /** Of one response. Default 8 MiB. */
  readonly maxBytes?: number;
  /** Of one partition in it. Default 4 MiB. */
  readonly partitionMaxBytes?: number;
  /** How long the broker may wait for something to send, ms. Default 500. */
  readonly maxWaitMs?: number;
  /** How long to try again when nothing works, ms. Default 30 000. */
  readonly timeoutMs?: number;
}

export interface FetchedPartition extends PartitionOf {
  readonly records: readonly RecordView[];
  /** The offset after all that came. */
  readonly nextOffset: number;
  readonly highWatermark: number;
}

interface Position extends PartitionOf {
  offset: number;
}

interface Answer {
  readonly node: number;
  readonly asked: readonly (PartitionOf & { readonly offset: number })[];
  readonly outcome: readonly { readonly topic: string; readonly data: FetchResponsePartitionData }[] | Error;
}

const RETRY_MS = 100;

export class Fetcher {
  readonly #client: Client;
  readonly #options: FetcherOptions;
  /** In the order in which they are asked for: who was served goes to the end. */
  readonly #positions = new Map<string, Position>();
  readonly #asking = new Map<number, Promise<Answer>>();
  #failingSince: number | undefined;

  constructor(client: Client, options: FetcherOptions = {}) {
    this.#client = client;
    this.#options = options;
  }

  /** Begins to fetch a partition at an offset, or moves there. */
  seek(partition: PartitionOf, offset: number): void {
    this.#positions.set(partitionName(partition), {
      topic: partition.topic,
      partition: partition.partition,
      offset,
    });
  }

  /** Fetches it no more. */
  drop(partition: PartitionOf): void {
    this.#positions.delete(partitionName(partition));
  }

  /** What the next response brings, with positions moved past it; nothing, when the time passed without anything new.
   * Throws BROKER_REFUSED (OFFSET_OUT_OF_RANGE and what else trying again does not mend), BATCH_CORRUPT, IO, TIMEOUT. */
  async poll(): Promise<FetchedPartition[]> {
    await this.#ask();
    if (this.#asking.size === 0) {
      await sleep(RETRY_MS);
      return [];
    }
    const { node, asked, outcome } = await Promise.race(this.#asking.values());
    this.#asking.delete(node);
    if (outcome instanceof Error) {
      await this.#failed(
        outcome,
        asked.map(({ topic }) => topic),
      );
      return [];
    }
    const offsets = new Map(asked.map((each) => [partitionName(each), each.offset]));
    const results: FetchedPartition[] = [];
    for (const { topic, data } of outcome) {
      const name = partitionName({ topic, partition: data.partitionIndex });
      const position = this.#positions.get(name);
      // It was dropped or moved while the answer was on its way.
      if (position === undefined || position.offset !== offsets.get(name)) continue;
      if (data.errorCode !== 0) {
        await this.#failed(new BrokerRefusal(data.errorCode, `fetch of ${name} at ${position.offset}`), [
          topic,
        ]);
        continue;
      }
      this.#failingSince = undefined;
      const { records, nextOffset } = decodeFetched(
        data,
        position.offset,
        this.#options.committedOnly ?? false,
      );
      if (nextOffset === position.offset) continue;
      this.#positions.delete(name);
      this.#positions.set(name, { ...position, offset: nextOffset });
      results.push({
        topic,
        partition: data.partitionIndex,
        records,
        nextOffset,
        highWatermark: data.highWatermark,
      });
    }
    if (results.length > 0) await this.#ask();
    return results;
  }

  /** Asks each leader that owes no answer. */
  async #ask(): Promise<void> {
    let groups: Map<number, Position[]>;
    try {
      groups = await byLeader(this.#client, [...this.#positions.values()]);
    } catch (error) {
      await this.#failed(error as Error, []);
      return;
    }
    for (const [node, positions] of groups) {
      if (this.#asking.has(node)) continue;
      const asked = positions.map((each) => ({ ...each }));
      this.#asking.set(
        node,
        this.#fetch(node, asked).then(
          (outcome) => ({ node, asked, outcome }),
          (error: Error) => ({ node, asked, outcome: error }),
        ),
      );
    }
  }

  async #fetch(node: number, positions: readonly Position[]) {
    const { maxBytes = 8 * 1024 * 1024, partitionMaxBytes = 4 * 1024 * 1024 } = this.#options;
    const ids = new Map<string, string>();
    let known = true;
    for (const { topic } of positions) {
      const metadata = await this.#client.topic(topic);
      ids.set(topic, metadata.topicId);
      known &&= hasId(metadata);
    }
    const names = new Map([...ids].map(([name, id]) => [id, name]));
    let byId = false;
    const response = await this.#client.request(
      APIS.fetch,
      (version) => {
        byId = version >= FIRST_FETCH_BY_ID;
        return {
          maxWaitMs: this.#options.maxWaitMs ?? 500,
          minBytes: 1,
          maxBytes,
          isolationLevel: this.#options.committedOnly ? 1 : 0,
          topics: [...byTopic(positions)].map(([topic, each]) => ({
            ...(byId ? { topicId: ids.get(topic) } : { topic }),
            partitions: each.map(({ partition, offset }) => ({
              partition,
              fetchOffset: offset,
              partitionMaxBytes,
            })),
          })),
        };
      },
      { to: await this.#client.broker(node), maxVersion: known ? undefined : FIRST_FETCH_BY_ID - 1 },
    );
    if (response.errorCode !== 0) throw new BrokerRefusal(response.errorCode, 'fetch');
    return response.responses.flatMap(({ topic, topicId, partitions }) => {
      const name = byId ? names.get(topicId) : topic;
      if (name === undefined)
        throw new BroadsheetError('MALFORMED', 'the response has a topic not asked for');
      return partitions.map((data) => ({ topic: name, data }));
    });
  }

  /** Waits a moment before the next try, or throws where there is none. */
  async #failed(error: Error, topics: readonly string[]): Promise<void> {
    const mended =
      error instanceof BrokerRefusal
        ? RETRIABLE.has(error.kafkaCode) || error.kafkaCode === KafkaError.FENCED_LEADER_EPOCH
        : retriable(error);
    this.#failingSince ??= performance.now();
    if (!mended || performance.now() - this.#failingSince > (this.#options.timeoutMs ?? 30_000)) throw error;
    const stale = topics.length > 0 ? topics : [...this.#positions.values()].map(({ topic }) => topic);
    for (const topic of stale) this.#client.forget(topic);
    await sleep(RETRY_MS);
  }
}
