/** All streams groups: finds the group that a heartbeat is about, or makes it, sees that internal topics are made, and gives groups
 * what they need of the broker. */
import type { JournalRecord } from '../metadata/journal.ts';
import { INTERNAL_TOPICS, topicNameFault } from '../metadata/topic-names.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import {
  type ConsumerFault,
  fault,
  JOIN_EPOCH,
  STATIC_LEAVE_EPOCH,
  type TopicsView,
} from './consumer-types.ts';
import { type GroupLog, groupCode } from './group-log.ts';
import { groupTombstone } from './group-records.ts';
import type { GroupTable } from './group-table.ts';
import { StreamsGroup } from './streams-group.ts';
import { hasTasks } from './streams-tasks.ts';
import {
  configureTopology,
  type InternalTopic,
  type StreamsTopology,
  sameTopology,
  topicsOf,
  topologyFault,
} from './streams-topology.ts';
import {
  type RespondStreams,
  refusedStreams,
  type StreamsHeartbeat,
  type StreamsHost,
  type StreamsSettings,
} from './streams-types.ts';

export interface StreamsCoordinatorParts {
  readonly table: GroupTable;
  readonly log: GroupLog;
  readonly clock: Clock;
  readonly settings: StreamsSettings;
  readonly topics: TopicsView;
  readonly logger: Logger;
  /** Makes topics, and resolves when they can be used; with why some can't, or an empty text. */
  readonly createTopics: (topics: readonly InternalTopic[]) => Promise<string>;
}

/** How long it is before topics that could not be made are tried again. */
const RETRY_MS = 5_000;

/** Topics that are being made for a group, or could not be. */
interface Creation {
  readonly done: Promise<void>;
  failure: string;
  /** Of the monotonic clock; undefined while it runs. */
  endedAt: number | undefined;
}

function namesFault(topology: StreamsTopology): ConsumerFault | undefined {
  const invalid = (message: string) => fault(KafkaError.STREAMS_INVALID_TOPOLOGY, message);
  for (const name of topicsOf(topology)) {
    if (INTERNAL_TOPICS.has(name)) return invalid(`the topic ${name} is Kafka's own`);
    const wrong = topicNameFault(name);
    if (wrong !== undefined) return invalid(wrong);
  }
  return undefined;
}

/** What is wrong with a heartbeat whatever the group is like. */
function heartbeatFault(request: StreamsHeartbeat): ConsumerFault | undefined {
  const invalid = (message: string) => fault(KafkaError.INVALID_REQUEST, message);
  const { memberEpoch, topology, owned } = request;
  const texts = { 'a member id': request.memberId, 'a group id': request.groupId };
  for (const [what, text] of Object.entries(texts))
    if (text.trim() === '') return invalid(`${what} must be given`);
  if (request.instanceId?.trim() === '') return invalid('an instance id must not be empty');
  if (request.rackId?.trim() === '') return invalid('a rack id must not be empty');
  if (memberEpoch === JOIN_EPOCH) {
    if (request.rebalanceTimeoutMs === -1) return invalid('who joins gives a rebalance timeout');
    if (owned === null || hasTasks(owned)) return invalid('who joins owns no tasks');
    if (topology === null) return invalid('who joins gives its topology');
  } else if (memberEpoch === STATIC_LEAVE_EPOCH) {
    if (request.instanceId === null) return invalid('only a member with an instance id leaves for a time');
  } else if (memberEpoch < STATIC_LEAVE_EPOCH) return invalid(`there is no member epoch ${memberEpoch}`);
  if (request.ownsInPart) return invalid('a member says of all kinds of tasks what it owns, or of none');
  if (topology === null) return undefined;
  if (memberEpoch !== JOIN_EPOCH) return invalid('a topology is given when joining, and only then');
  return namesFault(topology) ?? topologyFault(topology);
}

export class StreamsCoordinator implements StreamsHost {
  readonly clock: Clock;
  readonly streams: StreamsSettings;
  readonly topics: TopicsView;
  streamsMembers = 0;
  topicsVersion = 0;
  readonly #parts: StreamsCoordinatorParts;
  /** By group. */
  readonly #creations = new Map<string, Creation>();

  constructor(parts: StreamsCoordinatorParts) {
    this.#parts = parts;
    this.clock = parts.clock;
    this.streams = parts.settings;
    this.topics = parts.topics;
  }

  // --- what a group asks of its host ---

  append(groupId: string, records: readonly JournalRecord[], done: (errorCode: number) => void): void {
    this.#parts.log.append(groupId, records, (code) => done(groupCode(code)));
  }

  membersChanged(by: number): void {
    this.streamsMembers += by;
  }

  creationFailure(groupId: string): string {
    return this.#creations.get(groupId)?.failure ?? '';
  }

  log(groupId: string, message: string): void {
    this.#parts.logger.debug({ groupId }, `group ${groupId}: ${message}`);
  }

  // --- heartbeats ---

  /** See StreamsGroup.heartbeat(). The group's records can be appended. Internal topics that are missing are made first;
   * `begins` says whether the heartbeat may begin then. */
  heartbeat(request: StreamsHeartbeat, respond: RespondStreams, begins: () => boolean): void {
    const bad = heartbeatFault(request);
    if (bad !== undefined) {
      respond(refusedStreams(bad));
      return;
    }
    const serve = () => {
      const group = this.#groupOf(request);
      if ('errorCode' in group) respond(refusedStreams(group));
      else group.heartbeat(request, respond);
    };
    const missing = this.#missingTopics(request);
    if (missing.length === 0) {
      this.#creations.delete(request.groupId);
      serve();
      return;
    }
    void this.#create(request.groupId, missing).then(() => {
      if (begins()) serve();
    });
  }

  /** Internal topics that a group lacks, if the request can get so far. */
  #missingTopics({ groupId, memberEpoch, topology }: StreamsHeartbeat): readonly InternalTopic[] {
    if (memberEpoch < JOIN_EPOCH) return [];
    const known = this.#parts.table.get(groupId);
    const facts = known?.streams?.facts;
    if (facts?.topology !== undefined) {
      if (topology !== null && !sameTopology(facts.topology, topology)) return [];
      return facts.configured!.missing;
    }
    if (topology === null || (known !== undefined && !known.isVacant)) return [];
    return configureTopology(topology, this.topics).missing;
  }

  #create(groupId: string, missing: readonly InternalTopic[]): Promise<void> {
    const { clock, createTopics, logger } = this.#parts;
    const last = this.#creations.get(groupId);
    const isRecent = last?.endedAt !== undefined && clock.monotonic() - last.endedAt < RETRY_MS;
    if (last !== undefined && (last.endedAt === undefined || (isRecent && last.failure !== '')))
      return last.done;
    const done = createTopics(missing).then((failure) => {
      creation.failure = failure;
      creation.endedAt = clock.monotonic();
      if (failure !== '') logger.warn({ groupId }, `topics of streams group ${groupId}: ${failure}`);
    });
    const creation: Creation = { done, failure: last?.failure ?? '', endedAt: undefined };
    this.#creations.set(groupId, creation);
    return done;
  }

  #groupOf({ groupId, memberEpoch, topology }: StreamsHeartbeat): StreamsGroup | ConsumerFault {
    const { table, log } = this.#parts;
    const known = table.get(groupId);
    if (known?.streams !== undefined) return known.streams;
    // Only a newcomer makes a group, and it may take the place of an empty one of the classic protocol.
    const isFree = known === undefined || known.protocol === undefined || known.classic !== undefined;
    if (memberEpoch !== JOIN_EPOCH || !isFree || known?.isVacant === false) {
      return fault(KafkaError.GROUP_ID_NOT_FOUND, `there is no streams group ${groupId}`);
    }
    const unsound = configureTopology(topology!, this.topics).fault;
    if (unsound !== undefined) return unsound;
    const group = known ?? table.getOrCreate(groupId);
    if (group.classic !== undefined) {
      group.classic.close();
      log.append(groupId, [groupTombstone(groupId)], () => {});
    }
    const streams = new StreamsGroup(groupId, this);
    streams.facts.begin();
    group.protocol = streams;
    return streams;
  }

  /** A topic was made, deleted or got partitions: groups see to it with their next heartbeats. */
  topicChanged(): void {
    this.topicsVersion++;
  }
}
