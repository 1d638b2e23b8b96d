/** The topology of a streams group (KIP-1071) as its members give it, and what follows from it and the topics that there are: how
 * many tasks each subtopology has, and which internal topics have to be made. Rules as in Apache Kafka 4.4. */
import { KafkaError } from '../protocol/errors.ts';
import { type ConsumerFault, fault, type TopicsView } from './consumer-types.ts';
import { type KeyValue, type StatusDetail, StreamsStatus } from './streams-types.ts';

export interface TopicInfo {
  readonly name: string;
  /** 0: the coordinator decides. */
  readonly partitions: number;
  /** 0 or -1: the broker's default. */
  readonly replicationFactor: number;
  readonly topicConfigs: readonly KeyValue[];
}

/** Indexes into the subtopology's lists; their topics have to have as many partitions as each other. */
export interface CopartitionGroup {
  readonly sourceTopics: readonly number[];
  readonly sourceTopicRegex: readonly number[];
  readonly repartitionSourceTopics: readonly number[];
}

export interface Subtopology {
  readonly subtopologyId: string;
  readonly sourceTopics: readonly string[];
  readonly sourceTopicRegex: readonly string[];
  readonly stateChangelogTopics: readonly TopicInfo[];
  readonly repartitionSinkTopics: readonly string[];
  readonly repartitionSourceTopics: readonly TopicInfo[];
  readonly copartitionGroups: readonly CopartitionGroup[];
}

export interface StreamsTopology {
  readonly epoch: number;
  readonly subtopologies: readonly Subtopology[];
}

function topicInfo({ name, partitions, replicationFactor, topicConfigs }: TopicInfo): TopicInfo {
  const configs = topicConfigs.map(({ key, value }) => ({ key, value }));
  return { name, partitions, replicationFactor, topicConfigs: configs };
}

/** Without what else came with it: topologies of the same content have the same JSON. */
export function plainTopology({ epoch, subtopologies }: StreamsTopology): StreamsTopology {
  return {
    epoch,
    subtopologies: subtopologies.map((s) => ({
      subtopologyId: s.subtopologyId,
      sourceTopics: s.sourceTopics,
      sourceTopicRegex: s.sourceTopicRegex,
      stateChangelogTopics: s.stateChangelogTopics.map(topicInfo),
      repartitionSinkTopics: s.repartitionSinkTopics,
      repartitionSourceTopics: s.repartitionSourceTopics.map(topicInfo),
      copartitionGroups: s.copartitionGroups.map((group) => ({
        sourceTopics: group.sourceTopics,
        sourceTopicRegex: group.sourceTopicRegex,
        repartitionSourceTopics: group.repartitionSourceTopics,
      })),
    })),
  };
}

/** Of plain topologies. */
export function sameTopology(a: StreamsTopology, b: StreamsTopology): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** All topics that it reads or writes, each once. */
export function topicsOf({ subtopologies }: StreamsTopology): Set<string> {
  const names = new Set<string>();
  for (const s of subtopologies) {
    for (const name of s.sourceTopics) names.add(name);
    for (const name of s.repartitionSinkTopics) names.add(name);
    for (const { name } of s.repartitionSourceTopics) names.add(name);
    for (const { name } of s.stateChangelogTopics) names.add(name);
  }
  return names;
}

/** What is wrong with a topology whatever topics there are. */
export function topologyFault({ subtopologies }: StreamsTopology): ConsumerFault | undefined {
  const invalid = (message: string) => fault(KafkaError.STREAMS_INVALID_TOPOLOGY, message);
  const ids = new Set<string>();
  for (const s of subtopologies) {
    if (ids.has(s.subtopologyId)) return invalid(`subtopology ${s.subtopologyId} is given twice`);
    ids.add(s.subtopologyId);
    const set = s.stateChangelogTopics.find(({ partitions }) => partitions !== 0);
    if (set !== undefined)
      return invalid(`changelog topic ${set.name} must not say how many partitions it has`);
    for (const { sourceTopics, repartitionSourceTopics } of s.copartitionGroups) {
      const inRange =
        sourceTopics.every((index) => s.sourceTopics[index] !== undefined) &&
        repartitionSourceTopics.every((index) => s.repartitionSourceTopics[index] !== undefined);
      if (!inRange) return invalid(`a copartition group of subtopology ${s.subtopologyId} has no such topic`);
    }
  }
  if (subtopologies.some(({ sourceTopicRegex }) => sourceTopicRegex.length > 0)) {
    return fault(KafkaError.INVALID_REQUEST, 'source topics cannot be given by a pattern');
  }
  return undefined;
}

export interface ConfiguredSubtopology {
  /** Tasks 0 to tasks - 1. */
  readonly tasks: number;
  /** Source and repartition topics that it reads. */
  readonly inputs: readonly string[];
  readonly hasState: boolean;
}

/** A topic that the group needs and that does not exist. */
export interface InternalTopic extends TopicInfo {
  /** At least 1. */
  readonly partitions: number;
}

export interface ConfiguredTopology {
  /** By id, in order of id; empty while it is not ready. */
  readonly subtopologies: ReadonlyMap<string, ConfiguredSubtopology>;
  /** Why it is not ready. */
  readonly status: StatusDetail | undefined;
  /** It can't be ready with any topics. */
  readonly fault: ConsumerFault | undefined;
  readonly missing: readonly InternalTopic[];
  /** Partitions of internal topics, as far as they are known. */
  readonly partitions: ReadonlyMap<string, number>;
}

/** Ends the computation: the topics do not fit. */
class NotReady extends Error {
  readonly status: StatusDetail;

  constructor(statusCode: number, statusDetail: string) {
    super(statusDetail);
    this.status = { statusCode, statusDetail };
  }
}

/** Ends the computation: no topics would fit. */
class Unsound extends Error {}

/** What a topology is with these topics. It passed topologyFault(). */
export function configureTopology(topology: StreamsTopology, topics: TopicsView): ConfiguredTopology {
  const plan = new Plan(topology, topics);
  const notReady = { subtopologies: new Map(), missing: [], partitions: plan.partitions, fault: undefined };
  try {
    return plan.configure();
  } catch (error) {
    if (error instanceof NotReady) return { ...notReady, status: error.status };
    if (!(error instanceof Unsound)) throw error;
    const { message } = error;
    const status = { statusCode: StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, statusDetail: message };
    return { ...notReady, status, fault: fault(KafkaError.STREAMS_INVALID_TOPOLOGY, message) };
  }
}

/** Counts of partitions while they are found out. */
class Plan {
  readonly partitions = new Map<string, number>();
  readonly #topology: StreamsTopology;
  readonly #topics: TopicsView;

  constructor(topology: StreamsTopology, topics: TopicsView) {
    this.#topology = topology;
    this.#topics = topics;
  }

  /** 0 for a topic that does not exist. */
  #existing(name: string): number {
    const id = this.#topics.idOf(name);
    return id === undefined ? 0 : this.#topics.partitionCount(id);
  }

  /** Of a source or repartition topic; 0 while it is not known. */
  #count(name: string): number {
    return this.partitions.get(name) ?? this.#existing(name);
  }

  configure(): ConfiguredTopology {
    const { subtopologies } = this.#topology;
    const absent = new Set(
      subtopologies.flatMap(({ sourceTopics }) => sourceTopics.filter((name) => this.#existing(name) === 0)),
    );
    if (absent.size > 0) {
      const names = [...absent].sort().join(', ');
      throw new NotReady(StreamsStatus.MISSING_SOURCE_TOPICS, `Source topics ${names} are missing.`);
    }
    if (!this.#countRepartitionTopics()) {
      throw new Unsound(
        'a repartition topic is read that no subtopology writes, or its partitions follow from themselves',
      );
    }
    for (const subtopology of subtopologies) {
      for (const group of subtopology.copartitionGroups) this.#copartition(subtopology, group);
    }
    const configured = new Map<string, ConfiguredSubtopology>();
    for (const s of [...subtopologies].sort((a, b) => (a.subtopologyId < b.subtopologyId ? -1 : 1))) {
      const inputs = [...s.sourceTopics, ...s.repartitionSourceTopics.map(({ name }) => name)];
      if (inputs.length === 0) throw new Unsound(`subtopology ${s.subtopologyId} has no source topics`);
      const tasks = Math.max(...inputs.map((name) => this.#count(name)));
      for (const { name } of s.stateChangelogTopics) this.partitions.set(name, tasks);
      configured.set(s.subtopologyId, { tasks, inputs, hasState: s.stateChangelogTopics.length > 0 });
    }
    return this.#withInternalTopics(configured);
  }

  /** A repartition topic has as many partitions as the largest input of those who write to it. False if one stays unknown. */
  #countRepartitionTopics(): boolean {
    const { subtopologies } = this.#topology;
    const open = new Set<string>();
    for (const { name, partitions } of subtopologies.flatMap((s) => s.repartitionSourceTopics)) {
      if (partitions > 0) this.partitions.set(name, partitions);
      else open.add(name);
    }
    for (let progress = true; progress && open.size > 0; ) {
      progress = false;
      for (const name of open) {
        const inputs = subtopologies
          .filter(({ repartitionSinkTopics }) => repartitionSinkTopics.includes(name))
          .flatMap((s) => [...s.sourceTopics, ...s.repartitionSourceTopics.map((topic) => topic.name)])
          // One that exists has the partitions that follow, or is found to be wrong later.
          .map((input) => (open.has(input) ? 0 : this.#count(input)));
        const most = Math.max(0, ...inputs);
        if (most === 0) continue;
        this.partitions.set(name, most);
        open.delete(name);
        progress = true;
      }
    }
    return open.size === 0;
  }

  /** Makes topics of a group equal: source topics are as they are, repartition topics follow unless their number is given. */
  #copartition(subtopology: Subtopology, group: CopartitionGroup): void {
    const sources = group.sourceTopics.map((index) => subtopology.sourceTopics[index]!);
    const repartition = group.repartitionSourceTopics.map(
      (index) => subtopology.repartitionSourceTopics[index]!,
    );
    const given = repartition.filter(({ partitions }) => partitions > 0).map(({ name }) => name);
    const fixed = sources.length > 0 ? sources : given;
    const wanted = fixed.length > 0 ? this.#count(fixed[0]!) : 0;
    const differ = (names: readonly string[]) => names.some((name) => this.#count(name) !== wanted);
    if (differ(fixed)) {
      const each = [...fixed].sort().map((name) => `${name}=${this.#count(name)}`);
      throw new NotReady(
        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
        `Following topics do not have the same number of partitions: [{${each.join(', ')}}]`,
      );
    }
    const wrong = given.find((name) => this.#count(name) !== wanted);
    if (wrong !== undefined) {
      throw new NotReady(
        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
        `Number of partitions [${this.#count(wrong)}] of repartition topic [${wrong}] doesn't match number of partitions [${wanted}] of the source topic.`,
      );
    }
    const names = repartition.map(({ name }) => name);
    const common = wanted > 0 ? wanted : Math.max(0, ...names.map((name) => this.#count(name)));
    for (const name of names) this.partitions.set(name, common);
  }

  #withInternalTopics(subtopologies: ReadonlyMap<string, ConfiguredSubtopology>): ConfiguredTopology {
    const { partitions } = this;
    const missing: InternalTopic[] = [];
    const all = this.#topology.subtopologies.flatMap((s) => [
      ...s.repartitionSourceTopics,
      ...s.stateChangelogTopics,
    ]);
    for (const topic of new Map(all.map((each) => [each.name, each])).values()) {
      const count = partitions.get(topic.name)!;
      const existing = this.#existing(topic.name);
      if (existing === 0) missing.push({ ...topic, partitions: count });
      else if (existing !== count) {
        throw new NotReady(
          StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
          `Existing topic ${topic.name} has different number of partitions: expected ${count}, found ${existing}`,
        );
      }
    }
    if (missing.length === 0)
      return { subtopologies, status: undefined, fault: undefined, missing, partitions };
    const names = missing.map(({ name }) => name).sort();
    const statusDetail = `Internal topics are missing: ${names.join(', ')}`;
    const status = { statusCode: StreamsStatus.MISSING_INTERNAL_TOPICS, statusDetail };
    return { subtopologies: new Map(), status, fault: undefined, missing, partitions };
  }
}
