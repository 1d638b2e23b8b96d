/** Offsets that groups commit: taking, giving, removing and expiring them. Rules as in Apache Kafka 4.4. */
import type { TransactionalProducer } from '../log/coordinator-topic.ts';
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { judgeConsumerCommit, judgeConsumerFetch } from './consumer-commits.ts';
import { type GroupLog, groupCode } from './group-log.ts';
import {
  type CommittedOffset,
  groupTombstone,
  offsetRecord,
  offsetTombstone,
  ZERO_ID,
} from './group-records.ts';
import type { Group, GroupTable } from './group-table.ts';

export interface OffsetSettings {
  /** offset.metadata.max.bytes; counted in UTF-16 units, as in Kafka. */
  readonly metadataMaxLength: number;
  /** offsets.retention.minutes, in ms. */
  readonly retentionMs: number;
}

export interface OffsetToCommit {
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
  readonly offset: number;
  readonly leaderEpoch: number;
  readonly metadata: string | null;
}

export interface CommitRequest {
  readonly groupId: string;
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly generationId: number;
  /** ms from now; -1 for the broker's retention. */
  readonly retentionTimeMs: number;
  readonly version: number;
  readonly offsets: readonly OffsetToCommit[];
}

/** Of a TxnOffsetCommit: what a consumer has read is committed together with what a producer has written. */
export interface TransactionalCommit extends TransactionalProducer {
  readonly groupId: string;
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly generationId: number;
  readonly offsets: readonly OffsetToCommit[];
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** First version whose clients know what a missing group is. */
const FIRST_WITH_GROUP_ID_NOT_FOUND = 9;

/** What a failed append of offsets is called to who commits them. */
function commitCode(code: number): number {
  return code === KafkaError.MESSAGE_TOO_LARGE ? KafkaError.INVALID_COMMIT_OFFSET_SIZE : groupCode(code);
}

export class OffsetManager {
  readonly #table: GroupTable;
  readonly #topic: GroupLog;
  readonly #clock: Clock;
  readonly #settings: OffsetSettings;

  constructor(table: GroupTable, topic: GroupLog, clock: Clock, settings: OffsetSettings) {
    this.#table = table;
    this.#topic = topic;
    this.#clock = clock;
    this.#settings = settings;
  }

  /** One batch for all; `respond` gets a code for each offset, in order. */
  commit(request: CommitRequest, respond: (codes: number[]) => void): void {
    const { groupId, offsets } = request;
    const fault = this.#judge(request);
    if (fault !== KafkaError.NONE) {
      respond(offsets.map(() => fault));
      return;
    }
    const now = this.#clock.now();
    const expireTimestamp = request.retentionTimeMs < 0 ? -1 : now + request.retentionTimeMs;
    this.#append(groupId, offsets, expireTimestamp, undefined, respond, (at, committed) => {
      this.#table.getOrCreate(groupId).offsets.set(at.topic, at.partition, committed);
      this.#table.pending.supersede(groupId, at.topic, at.partition);
    });
  }

  /** The same within a producer's transaction, which was seen to be open and to concern the group: what is committed shows
   * once the transaction is. */
  commitInTransaction(request: TransactionalCommit, respond: (codes: number[]) => void): void {
    const { groupId, offsets, producerId, producerEpoch } = request;
    const fault = this.#judgeInTransaction(request);
    if (fault !== KafkaError.NONE) {
      respond(offsets.map(() => fault));
      return;
    }
    this.#append(groupId, offsets, -1, { producerId, producerEpoch }, respond, (at, committed) => {
      const { topic, partition } = at;
      this.#table.getOrCreate(groupId);
      this.#table.pending.add(producerId, groupId, { topic, partition, committed });
    });
  }

  /** The end of a producer's transaction can be read in the partition `index` of the log. */
  endTransaction(index: number, producerId: number, commit: boolean): void {
    const concerns = (groupId: string) => this.#topic.indexOf(groupId) === index;
    for (const { groupId, offsets } of this.#table.pending.end(producerId, commit, concerns)) {
      for (const { topic, partition, committed } of offsets)
        this.#table.getOrCreate(groupId).offsets.set(topic, partition, committed);
      this.#forgetUnused(groupId);
    }
  }

  /** The number of the partition that holds a group's offsets; -1 while there is none. */
  partitionOf(groupId: string): number {
    return this.#topic.indexOf(groupId);
  }

  /** Whether a transaction is open that has committed an offset of this partition. */
  isUnstable(groupId: string, topic: string, partition: number): boolean {
    return this.#table.pending.covers(groupId, topic, partition);
  }

  /** Appends what may be committed; `keep` gets each once it is written. */
  #append(
    groupId: string,
    offsets: readonly OffsetToCommit[],
    expireTimestamp: number,
    producer: TransactionalProducer | undefined,
    respond: (codes: number[]) => void,
    keep: (at: OffsetToCommit, committed: CommittedOffset) => void,
  ): void {
    const now = this.#clock.now();
    const taken: { readonly at: OffsetToCommit; readonly committed: CommittedOffset }[] = [];
    const codes = offsets.map((at) => {
      const metadata = at.metadata ?? '';
      if (metadata.length > this.#settings.metadataMaxLength) return KafkaError.OFFSET_METADATA_TOO_LARGE;
      const { offset, leaderEpoch, topicId } = at;
      taken.push({
        at,
        committed: { offset, leaderEpoch, metadata, commitTimestamp: now, expireTimestamp, topicId },
      });
      return KafkaError.NONE;
    });
    if (taken.length === 0) {
      respond(codes);
      return;
    }
    const records = taken.map(({ at, committed }) =>
      offsetRecord(groupId, at.topic, at.partition, committed),
    );
    const group = this.#table.getOrCreate(groupId);
    group.commitsInFlight++;
    const written = (error: number) => {
      group.commitsInFlight--;
      if (error !== KafkaError.NONE) {
        this.#forgetUnused(groupId);
        const code = commitCode(error);
        respond(codes.map((own) => own || code));
        return;
      }
      for (const { at, committed } of taken) keep(at, committed);
      respond(codes);
    };
    this.#topic.append(groupId, records, written, producer);
  }

  /** Who gives neither member nor generation is not judged: clients of old versions have no place for them. */
  #judgeInTransaction({
    groupId,
    memberId,
    groupInstanceId,
    generationId,
    offsets,
  }: TransactionalCommit): number {
    const group = this.#table.get(groupId);
    const anonymous = generationId < 0 && memberId === '' && groupInstanceId === null;
    const protocol = group?.protocol;
    if (protocol === undefined) {
      if (generationId < 0) return KafkaError.NONE;
      return group === undefined ? KafkaError.ILLEGAL_GENERATION : KafkaError.UNKNOWN_MEMBER_ID;
    }
    if (anonymous) return KafkaError.NONE;
    if (group!.foreign !== undefined) return KafkaError.UNKNOWN_MEMBER_ID;
    if (group!.modern !== undefined) {
      const version = FIRST_WITH_GROUP_ID_NOT_FOUND;
      const member = { memberId, memberEpoch: generationId, version, partitions: offsets };
      const code = judgeConsumerCommit(group!.modern, member);
      return code === KafkaError.STALE_MEMBER_EPOCH ? KafkaError.ILLEGAL_GENERATION : code;
    }
    const code = group!.classic!.judgeCommit(memberId, groupInstanceId, generationId);
    // A transaction may end while the group rebalances.
    return code === KafkaError.REBALANCE_IN_PROGRESS ? KafkaError.NONE : code;
  }

  #judge({ groupId, memberId, groupInstanceId, generationId, version, offsets }: CommitRequest): number {
    const group = this.#table.get(groupId);
    const protocol = group?.protocol;
    if (protocol === undefined) {
      if (generationId < 0) return KafkaError.NONE;
      if (group !== undefined) return KafkaError.UNKNOWN_MEMBER_ID;
      return version >= FIRST_WITH_GROUP_ID_NOT_FOUND
        ? KafkaError.GROUP_ID_NOT_FOUND
        : KafkaError.ILLEGAL_GENERATION;
    }
    if (group!.foreign !== undefined) {
      // No member of another protocol is alive here.
      return generationId < 0 && memberId === '' ? KafkaError.NONE : KafkaError.UNKNOWN_MEMBER_ID;
    }
    const modern = group!.modern;
    if (modern !== undefined) {
      return judgeConsumerCommit(modern, {
        memberId,
        memberEpoch: generationId,
        version,
        partitions: offsets,
      });
    }
    return group!.classic!.judgeCommit(memberId, groupInstanceId, generationId);
  }

  /** An error code: whether one may read a group's offsets, as a member or without being one. */
  judgeFetch(groupId: string, memberId: string | null, memberEpoch: number): number {
    const modern = this.#table.get(groupId)?.modern;
    return modern === undefined ? KafkaError.NONE : judgeConsumerFetch(modern, memberId, memberEpoch);
  }

  /** What was committed, or undefined. An offset of another topic with the same name is none. */
  fetch(groupId: string, topic: string, partition: number, topicId: string): CommittedOffset | undefined {
    const committed = this.#table.get(groupId)?.offsets.get(topic, partition);
    if (committed === undefined) return undefined;
    const mismatch = topicId !== ZERO_ID && committed.topicId !== ZERO_ID && committed.topicId !== topicId;
    return mismatch ? undefined : committed;
  }

  /** Removes offsets of a group; `respond` gets a code for the whole, or one for each. */
  delete(
    groupId: string,
    partitions: readonly TopicPartition[],
    respond: (errorCode: number, codes: number[]) => void,
  ): void {
    const group = this.#table.get(groupId);
    if (group === undefined) {
      respond(KafkaError.GROUP_ID_NOT_FOUND, []);
      return;
    }
    const { classic, modern } = group;
    if (classic !== undefined && classic.state !== 'Empty' && !classic.usesConsumerProtocol) {
      respond(KafkaError.NON_EMPTY_GROUP, []);
      return;
    }
    const records: JournalRecord[] = [];
    const removed: TopicPartition[] = [];
    const codes = partitions.map(({ topic, partition }) => {
      if (classic?.subscribesTo(topic) || modern?.subscribesTo(topic))
        return KafkaError.GROUP_SUBSCRIBED_TO_TOPIC;
      const isPending = this.isUnstable(groupId, topic, partition);
      if (isPending || group.offsets.get(topic, partition) !== undefined) {
        records.push(offsetTombstone(groupId, topic, partition));
        removed.push({ topic, partition });
      }
      return KafkaError.NONE;
    });
    if (records.length === 0) {
      respond(KafkaError.NONE, codes);
      return;
    }
    this.#topic.appendMany(groupId, records, (error) => {
      if (error !== KafkaError.NONE) return respond(commitCode(error), []);
      this.#remove(groupId, removed);
      respond(KafkaError.NONE, codes);
    });
  }

  /** What was pending when the tombstone was appended goes with it, as in a start that reads the log. */
  #remove(groupId: string, partitions: readonly TopicPartition[]): void {
    const offsets = this.#table.get(groupId)?.offsets;
    for (const { topic, partition } of partitions) {
      offsets?.delete(topic, partition);
      this.#table.pending.forget(groupId, topic, partition);
    }
  }

  /** Removes what was committed for a topic that is gone, in all groups. */
  topicDeleted(topic: string): void {
    for (const { groupId, offsets } of this.#table.all()) {
      this.#table.pending.forget(groupId, topic);
      const partitions = [...(offsets.partitions(topic)?.keys() ?? [])];
      this.#bury(
        groupId,
        partitions.map((partition) => ({ topic, partition })),
      );
    }
  }

  /** Removes what was committed for topics that are gone or others now: a kill came between a topic's deletion and this.
   * `topicId` tells the id of a topic that exists. */
  removeStale(topicId: (topic: string) => string | undefined): void {
    for (const { groupId, offsets } of this.#table.all()) {
      const stale: TopicPartition[] = [];
      for (const [topic, partitions] of offsets.topics()) {
        const current = topicId(topic);
        for (const [partition, committed] of partitions) {
          if (committed.topicId !== ZERO_ID && committed.topicId !== current)
            stale.push({ topic, partition });
        }
      }
      this.#bury(groupId, stale);
    }
  }

  #bury(groupId: string, gone: readonly TopicPartition[]): void {
    if (gone.length === 0) return;
    const records = gone.map(({ topic, partition }) => offsetTombstone(groupId, topic, partition));
    this.#topic.appendMany(groupId, records, (error) => {
      if (error === KafkaError.NONE) this.#remove(groupId, gone);
    });
  }

  /** Removes what was not committed again for the whole retention while nobody read it, and then groups of which
   * nothing is left. */
  expire(): void {
    const now = this.#clock.now();
    for (const group of [...this.#table.all()]) {
      const { groupId } = group;
      if (group.commitsInFlight > 0 || !this.#topic.isAvailable(groupId)) continue;
      const expired: TopicPartition[] = [];
      let kept = 0;
      for (const [topic, partitions] of group.offsets.topics()) {
        for (const [partition, committed] of partitions) {
          const pending = this.isUnstable(groupId, topic, partition);
          if (!pending && this.#isExpired(group, topic, committed, now)) expired.push({ topic, partition });
          else kept++;
        }
      }
      const ends =
        kept === 0 && group.isVacant && group.foreign === undefined && !this.#table.pending.has(groupId);
      if (expired.length === 0 && !ends) continue;
      const records = expired.map(({ topic, partition }) => offsetTombstone(groupId, topic, partition));
      if (ends && group.classic !== undefined) records.push(groupTombstone(groupId));
      if (ends && group.modern !== undefined) {
        group.modern.facts.bury();
        group.modern.facts.flush();
      }
      if (records.length === 0) {
        this.#table.remove(groupId);
        continue;
      }
      this.#topic.appendMany(groupId, records, (error) => {
        if (error !== KafkaError.NONE) return;
        this.#remove(groupId, expired);
        if (ends) this.#forgetUnused(groupId);
      });
    }
  }

  /** Lets go of a group that nobody is in and that has no offsets; it was removed from the log, or never was in it. */
  #forgetUnused(groupId: string): void {
    const group = this.#table.get(groupId);
    if (!group?.isVacant || !group.offsets.isEmpty || group.commitsInFlight > 0) return;
    if (!this.#table.pending.has(groupId)) this.#table.remove(groupId);
  }

  #isExpired(group: Group, topic: string, committed: CommittedOffset, now: number): boolean {
    const { retentionMs } = this.#settings;
    const past = (since: number) =>
      committed.expireTimestamp >= 0 ? now >= committed.expireTimestamp : now - since >= retentionMs;
    const { classic, modern, foreign } = group;
    if (modern !== undefined) return !modern.subscribesTo(topic) && past(committed.commitTimestamp);
    // Its members may come back on an Apache Kafka.
    if (foreign !== undefined) return foreign.state === 'Empty' && past(committed.commitTimestamp);
    if (classic === undefined || classic.protocolType === null) return past(committed.commitTimestamp);
    if (classic.state === 'Empty') {
      return past(classic.stateTimestamp >= 0 ? classic.stateTimestamp : committed.commitTimestamp);
    }
    const { subscribedTopics } = classic;
    if (classic.state !== 'Stable' || !classic.usesConsumerProtocol || subscribedTopics === undefined)
      return false;
    return !subscribedTopics.has(topic) && past(committed.commitTimestamp);
  }
}
