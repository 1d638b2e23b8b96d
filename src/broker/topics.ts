/**
 * Topics as clients make and delete them: the metadata's decision, its durability and the folders on disk, in the order
 * that Apache Kafka needs. What is asked of one name happens one after the other.
 */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { TopicConfig } from '../config/topic-config.ts';
import type { LogManager, PartitionDescription } from '../log/log-manager.ts';
import type {
  ClusterMetadata,
  CreatePartitionsResult,
  CreateTopicResult,
  DeleteTopicResult,
} from '../metadata/cluster-metadata.ts';
import type { Refusal, TopicReference, TopicSpec } from '../metadata/controller.ts';
import type { PartitionsSpec } from '../metadata/controller-partitions.ts';
import { ConfigResource, type TopicState } from '../metadata/image.ts';
import { CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, topicNameFault } from '../metadata/topic-names.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import { ToldErrors } from '../runtime/told-errors.ts';
import type { TopicConfigs } from './dynamic-config.ts';
import { type ConfigEntry, topicConfigEntries } from './topic-config-entries.ts';

export interface TopicsParts {
  readonly metadata: ClusterMetadata;
  readonly logs: LogManager;
  readonly config: BrokerConfig;
  readonly topicConfigs: TopicConfigs;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What the metadata says of a partition, as its log needs it. For one pass over partitions: those of a topic share its values. */
export function describePartition(
  metadata: ClusterMetadata,
  topicConfigs: TopicConfigs,
): (topic: string, index: number) => PartitionDescription | undefined {
  const configs = new Map<string, TopicConfig>();
  return (name, index) => {
    const topic = metadata.image.topicsByName.get(name);
    const partition = topic?.partitions.get(index);
    if (topic === undefined || partition === undefined) return undefined;
    const config = configs.get(name) ?? topicConfigs.of(name);
    configs.set(name, config);
    return { topicId: topic.id, leaderEpoch: partition.leaderEpoch, config };
  };
}

export class Topics {
  readonly #parts: TopicsParts;
  readonly #told: ToldErrors;
  /** What goes on with a name; the next change of it waits. */
  readonly #busy = new Map<string, Promise<unknown>>();
  /** Creations that clients' requests share. */
  readonly #autoCreations = new Map<string, Promise<number>>();
  /** Told of every topic that is deleted, when its name is no longer known. */
  onDeleted: ((name: string) => void) | undefined;
  readonly #listeners: ((name: string) => void)[] = [];

  constructor(parts: TopicsParts) {
    this.#parts = parts;
    this.#told = new ToldErrors(parts.clock);
  }

  /** `listener` is called with a topic's name after the topic was made, was deleted or got more partitions: the image says
   * so then, and new partitions can be used. */
  onChanged(listener: (name: string) => void): void {
    this.#listeners.push(listener);
  }

  #changed(names: Iterable<string>): void {
    for (const name of names) for (const listener of this.#listeners) listener(name);
  }

  /** Whether a topic that a client only named may be made. */
  mayAutoCreate(name: string): boolean {
    return (
      this.#parts.config.boolean('auto.create.topics.enable') &&
      topicNameFault(name) === undefined &&
      !INTERNAL_TOPICS.has(name) &&
      name !== CLUSTER_METADATA_TOPIC
    );
  }

  /** Resolves once nothing is going on with a topic; undefined if nothing is. */
  settled(name: string): Promise<unknown> | undefined {
    return this.#busy.get(name);
  }

  /** Makes a topic that a client named, with the broker's defaults, and resolves with an error code when it can be used.
   * Requests that ask at the same time share one creation. */
  autoCreate(name: string): Promise<number> {
    const running = this.#autoCreations.get(name);
    if (running !== undefined) return running;
    const creation = this.#autoCreate(name).finally(() => this.#autoCreations.delete(name));
    this.#autoCreations.set(name, creation);
    return creation;
  }

  async #autoCreate(name: string): Promise<number> {
    const spec = { name, numPartitions: -1, replicationFactor: -1, assignments: [], configs: [] };
    const [result] = await this.create([spec], false);
    if (result === undefined || result.ok) return KafkaError.NONE;
    return result.errorCode === KafkaError.TOPIC_ALREADY_EXISTS ? KafkaError.NONE : result.errorCode;
  }

  /** Makes topics, or only says whether they could be made; resolves when they can be used. */
  async create(specs: readonly TopicSpec[], validateOnly: boolean): Promise<CreateTopicResult[]> {
    const names = specs.map((spec) => spec.name);
    try {
      return await this.#create(specs, names, validateOnly);
    } catch (error) {
      return names.map((name) => ({ name, ...this.#refusal(error, `create ${name}`) }));
    }
  }

  /** The metadata log did not take a change. */
  #refusal(error: unknown, what: string): Refusal {
    const message = error instanceof Error ? error.message : String(error);
    const line = `failed to ${what}`;
    if (this.#told.isNew(`${line}: ${message}`)) this.#parts.log.error({ reason: message }, line);
    return { ok: false, errorCode: kafkaCodeOf(error), message };
  }

  async #create(
    specs: readonly TopicSpec[],
    names: readonly string[],
    validateOnly: boolean,
  ): Promise<CreateTopicResult[]> {
    const { metadata, clock } = this.#parts;
    while (this.#isBusy(names)) await this.#idle(names);
    const results = metadata.createTopics(specs, clock.now(), validateOnly);
    if (validateOnly) return results;
    const created = results.filter((result) => result.ok).map((result) => result.name);
    if (created.length === 0) return results;
    const folders = this.#occupy(created, this.#makeFolders(created));
    const failures = await folders;
    this.#changed(created.filter((name) => !failures.has(name)));
    return results.map((result) => {
      const failure = failures.get(result.name);
      if (failure === undefined) return result;
      const { name } = result;
      return { name, ok: false, errorCode: kafkaCodeOf(failure), message: (failure as Error).message };
    });
  }

  /** Folders of new topics, after the records that name them are durable. Topics that get none are taken back. */
  async #makeFolders(names: readonly string[]): Promise<Map<string, unknown>> {
    const { metadata, log, clock } = this.#parts;
    await metadata.durable();
    const failures = new Map<string, unknown>();
    await Promise.all(
      names.map(async (name) => {
        const topic = metadata.image.topicsByName.get(name);
        if (topic === undefined) return;
        try {
          await this.makePartitions(topic);
        } catch (error) {
          const reason = (error as Error).message;
          if (this.#told.isNew(`${name}: ${reason}`))
            log.error({ topic: name, reason }, "a topic's folders could not be made");
          failures.set(name, error);
        }
      }),
    );
    for (const name of failures.keys()) {
      const topicId = NO_TOPIC_ID;
      metadata.deleteTopics([{ name, topicId }], clock.now());
      await this.#parts.logs.deleteTopic(name).catch(() => {});
    }
    return failures;
  }

  /** Makes the logs of a topic's partitions. */
  async makePartitions(topic: TopicState, indexes = [...topic.partitions.keys()]): Promise<void> {
    const { metadata, logs, topicConfigs } = this.#parts;
    const describe = describePartition(metadata, topicConfigs);
    await Promise.all(indexes.map((index) => logs.create(topic.name, index, describe(topic.name, index)!)));
  }

  /** Gives topics more partitions, or only says whether they could get them; resolves when they can be used. A partition
   * whose folder could not be made is tried again at the next start. */
  async grow(specs: readonly PartitionsSpec[], validateOnly: boolean): Promise<CreatePartitionsResult[]> {
    try {
      return await this.#grow(specs, validateOnly);
    } catch (error) {
      return specs.map(({ name }) => ({ name, ...this.#refusal(error, `add partitions to ${name}`) }));
    }
  }

  async #grow(specs: readonly PartitionsSpec[], validateOnly: boolean): Promise<CreatePartitionsResult[]> {
    const { metadata, clock } = this.#parts;
    const asked = specs.map(({ name }) => name);
    while (this.#isBusy(asked)) await this.#idle(asked);
    const results = metadata.createPartitions(specs, clock.now(), validateOnly);
    const grown = results.flatMap((result) => (result.ok ? [result] : []));
    if (validateOnly || grown.length === 0) return results;
    const failures = new Map<string, Refusal>();
    const folders = async () => {
      await metadata.durable();
      await Promise.all(
        grown.map(async ({ name, firstIndex, count }) => {
          const topic = metadata.image.topicsByName.get(name)!;
          const indexes = Array.from({ length: count - firstIndex }, (_, n) => firstIndex + n);
          try {
            await this.makePartitions(topic, indexes);
          } catch (error) {
            failures.set(name, this.#refusal(error, `make the folders of ${name}`));
          }
        }),
      );
    };
    const names = grown.map(({ name }) => name);
    await this.#occupy(names, folders());
    this.#changed(names);
    return results.map((result) => {
      const failure = failures.get(result.name);
      return failure === undefined ? result : { name: result.name, ...failure };
    });
  }

  /** Resolves when nothing goes on. */
  async idle(): Promise<void> {
    while (this.#busy.size > 0) await this.#idle([...this.#busy.keys()]);
  }

  /** Deletes topics. When it resolves their names are free and nothing waits on them. */
  async delete(references: readonly TopicReference[]): Promise<DeleteTopicResult[]> {
    try {
      return await this.#delete(references);
    } catch (error) {
      return references.map((reference) => ({
        ...reference,
        ...this.#refusal(error, `delete ${reference.name ?? reference.topicId}`),
      }));
    }
  }

  async #delete(references: readonly TopicReference[]): Promise<DeleteTopicResult[]> {
    const { metadata, logs, clock, log } = this.#parts;
    const nameOf = ({ name, topicId }: TopicReference) =>
      name ?? metadata.image.topicsById.get(topicId)?.name ?? '';
    const asked = references.map(nameOf);
    while (this.#isBusy(asked)) await this.#idle(asked);
    const results = metadata.deleteTopics(references, clock.now());
    const names = results.flatMap((result) => (result.ok ? [result.name] : []));
    if (names.length === 0) return results;
    for (const name of names) this.onDeleted?.(name);
    this.#changed(names);
    const removal = async () => {
      // Out of service at once; the folders are renamed when the records can no longer be lost.
      await metadata.durable();
      for (const name of names) {
        await logs.deleteTopic(name).catch((error: unknown) => {
          log.error({ topic: name, reason: String(error) }, "a deleted topic's folders could not be renamed");
        });
      }
    };
    await this.#occupy(names, removal());
    return results;
  }

  /** All values of a topic with these values of its own, in order of name. */
  configEntries(overrides: ReadonlyMap<string, string>): ConfigEntry[] {
    const { metadata, config } = this.#parts;
    return topicConfigEntries(overrides, metadata.image.configs(ConfigResource.BROKER, ''), config);
  }

  /** Whether something goes on with any of the names. Asked right before a change begins: while a promise is awaited, others
   * may begin. */
  #isBusy(names: readonly string[]): boolean {
    return names.some((name) => this.#busy.has(name));
  }

  async #idle(names: readonly string[]): Promise<void> {
    await Promise.allSettled(names.flatMap((name) => this.#busy.get(name) ?? []));
  }

  #occupy<T>(names: readonly string[], work: Promise<T>): Promise<T> {
    const occupied = work.finally(() => {
      for (const name of names) if (this.#busy.get(name) === occupied) this.#busy.delete(name);
    });
    for (const name of names) this.#busy.set(name, occupied);
    return occupied;
  }
}

const NO_TOPIC_ID = 'AAAAAAAAAAAAAAAAAAAAAA';
