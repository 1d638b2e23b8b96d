/**
 * Fetch (API key 1), versions 4-18, by hand: a request is read without an object per partition, a response is written
 * around its records, which stay in their files. Agrees with generated/Fetch.ts.
 *
 * 4-11 are not flexible, 12+ are; 5 adds the log start offset, 7 sessions, 9 the leader epoch, 11 the rack, 12 the last
 * fetched epoch and what a diverging log is told, 13 names topics by id, 15 moves the replica id into a tag, 16 adds
 * leaders' endpoints.
 */
import { NameCache } from './name-cache.ts';
import type { Part } from './part.ts';
import {
  isNobody,
  type LeaderAndEpoch,
  type NodeEndpoint,
  writeCount,
  writeLeader,
  writeNodeEndpoints,
} from './produce.ts';
import { int32At, int64At, type Reader, tagUnknownToVersion, versionUnreadable } from './reader.ts';
import { putInt32, putInt64, versionUnwritable, type Writer } from './writer.ts';

const FIRST_FLEXIBLE = 12;
const FIRST_WITH_TOPIC_ID = 13;
const MIN_VERSION = 4;
const MAX_VERSION = 18;

/** Lists longer than this are given up after the request that needed them. */
const KEPT_LENGTH = 65_536;

/** A Fetch request, in flat lists that are used again by the next read(). */
export class FetchRequestReader {
  /** The follower that asks; -1 for a consumer. */
  replicaId = -1;
  replicaEpoch = -1;
  clusterId: string | null = null;
  maxWaitMs = 0;
  minBytes = 0;
  maxBytes = 0;
  /** 0 read_uncommitted, 1 read_committed. */
  isolationLevel = 0;
  /** 0 with epoch -1: no session, and none wanted. */
  sessionId = 0;
  sessionEpoch = -1;
  rackId = '';
  topicCount = 0;
  /** Name of each topic; from version 13 on its id (base64url). */
  topics: string[] = [];
  /** Partitions of topic t are those from partitionEnds[t - 1] (0 for the first) to before partitionEnds[t]. */
  partitionEnds: number[] = [];
  partitionCount = 0;
  /** Partition number of each. */
  partitions: number[] = [];
  currentLeaderEpochs: number[] = [];
  fetchOffsets: number[] = [];
  lastFetchedEpochs: number[] = [];
  /** Of a follower; -1 for a consumer. */
  logStartOffsets: number[] = [];
  partitionMaxBytes: number[] = [];
  /** What leaves the session, laid out as topics and partitions above. */
  forgottenTopicCount = 0;
  forgottenTopics: string[] = [];
  forgottenPartitionEnds: number[] = [];
  forgottenPartitions: number[] = [];
  readonly #names: NameCache;

  constructor(names: NameCache = new NameCache()) {
    this.#names = names;
  }

  /** Reads a whole request body. Throws MALFORMED; the lists are then undefined. Of a follower's fields in tags only the
   * replica id and epoch are kept. */
  read(r: Reader, version: number): void {
    if (version < MIN_VERSION || version > MAX_VERSION) throw versionUnreadable('FetchRequest', version);
    this.#begin();
    this.replicaId = version < 15 ? r.int32() : -1;
    this.maxWaitMs = r.int32();
    this.minBytes = r.int32();
    this.maxBytes = r.int32();
    this.isolationLevel = r.int8();
    this.sessionId = version >= 7 ? r.int32() : 0;
    this.sessionEpoch = version >= 7 ? r.int32() : -1;
    this.#readTopics(r, version);
    if (version >= 7) this.#readForgotten(r, version);
    const flexible = version >= FIRST_FLEXIBLE;
    this.rackId = version < 11 ? '' : flexible ? r.compactString() : r.string();
    if (flexible) this.#readTags(r, version);
  }

  #begin(): void {
    if (
      this.topics.length > KEPT_LENGTH ||
      this.partitions.length > KEPT_LENGTH ||
      this.forgottenTopics.length > KEPT_LENGTH ||
      this.forgottenPartitions.length > KEPT_LENGTH
    ) {
      this.topics = [];
      this.partitionEnds = [];
      this.partitions = [];
      this.currentLeaderEpochs = [];
      this.fetchOffsets = [];
      this.lastFetchedEpochs = [];
      this.logStartOffsets = [];
      this.partitionMaxBytes = [];
      this.forgottenTopics = [];
      this.forgottenPartitionEnds = [];
      this.forgottenPartitions = [];
    }
    this.topicCount = 0;
    this.partitionCount = 0;
    this.forgottenTopicCount = 0;
    this.replicaEpoch = -1;
    this.clusterId = null;
  }

  #readTopics(r: Reader, version: number): void {
    const flexible = version >= FIRST_FLEXIBLE;
    const byId = version >= FIRST_WITH_TOPIC_ID;
    const topics = flexible ? r.compactArrayCount(byId ? 18 : 3) : r.arrayCount(6);
    // What a partition takes, but for its tags: number, offset and limit, and what versions added.
    const fixed = flexible ? 32 : version >= 9 ? 28 : version >= 5 ? 24 : 16;
    const least = flexible ? fixed + 1 : fixed;
    const { partitions: partitionList, currentLeaderEpochs: leaderEpochs, fetchOffsets: offsets } = this;
    const {
      lastFetchedEpochs: fetchedEpochs,
      logStartOffsets: startOffsets,
      partitionMaxBytes: limits,
    } = this;
    let at = 0;
    for (let t = 0; t < topics; t++) {
      this.topics[t] = byId ? this.#names.id(r) : this.#names.name(r, flexible);
      const partitions = flexible ? r.compactArrayCount(least) : r.arrayCount(least);
      for (let p = 0; p < partitions; p++, at++) {
        let from = r.take(fixed);
        const b = r.source;
        partitionList[at] = int32At(b, from);
        if (version >= 9) from += 4;
        leaderEpochs[at] = version >= 9 ? int32At(b, from) : -1;
        offsets[at] = int64At(b, from + 4);
        if (flexible) from += 4;
        fetchedEpochs[at] = flexible ? int32At(b, from + 8) : -1;
        if (version >= 5) from += 8;
        startOffsets[at] = version >= 5 ? int64At(b, from + 4) : -1;
        limits[at] = int32At(b, from + 12);
        if (flexible) skipFollowerTags(r, version);
      }
      if (flexible) r.skipTags();
      this.partitionEnds[t] = at;
    }
    this.topicCount = topics;
    this.partitionCount = at;
  }

  #readForgotten(r: Reader, version: number): void {
    const flexible = version >= FIRST_FLEXIBLE;
    const byId = version >= FIRST_WITH_TOPIC_ID;
    const topics = flexible ? r.compactArrayCount(byId ? 18 : 3) : r.arrayCount(6);
    let at = 0;
    for (let t = 0; t < topics; t++) {
      this.forgottenTopics[t] = byId ? this.#names.id(r) : this.#names.name(r, flexible);
      const partitions = flexible ? r.compactArrayCount(4) : r.arrayCount(4);
      for (let p = 0; p < partitions; p++, at++) this.forgottenPartitions[at] = r.int32();
      if (flexible) r.skipTags();
      this.forgottenPartitionEnds[t] = at;
    }
    this.forgottenTopicCount = topics;
  }

  #readTags(r: Reader, version: number): void {
    for (let left = r.tagCount(); left > 0; left--) {
      const tag = r.unsignedVarint();
      const end = r.tagEnd();
      if (tag === 0) {
        this.clusterId = r.compactNullableString();
        r.tagDone(tag, end);
      } else if (tag === 1) {
        if (version < 15) throw tagUnknownToVersion(tag, version);
        this.replicaId = r.int32();
        this.replicaEpoch = r.int64();
        r.skipTags();
        r.tagDone(tag, end);
      } else r.position = end;
    }
  }
}

/** A follower's directory id (tag 0) and high watermark (tag 1): nobody follows us. */
function skipFollowerTags(r: Reader, version: number): void {
  for (let left = r.tagCount(); left > 0; left--) {
    const tag = r.unsignedVarint();
    const end = r.tagEnd();
    if (tag === 0 || tag === 1) {
      if (version < 17 + tag) throw tagUnknownToVersion(tag, version);
      r.skip(tag === 0 ? 16 : 8);
      r.tagDone(tag, end);
    } else r.position = end;
  }
}

export interface EpochAndOffset {
  readonly epoch: number;
  readonly endOffset: number;
}

export interface AbortedTransaction {
  readonly producerId: number;
  readonly firstOffset: number;
}

export interface FetchPartitionResult {
  readonly partitionIndex: number;
  readonly errorCode: number;
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStartOffset: number;
  /** Version 12+: where the asker's log parts from this one. */
  readonly divergingEpoch?: EpochAndOffset | undefined;
  /** Version 12+: who leads instead. */
  readonly currentLeader?: LeaderAndEpoch;
  /** Version 12+, of KRaft: the snapshot to read instead. */
  readonly snapshotId?: EpochAndOffset;
  /** null or absent with read_uncommitted. */
  readonly abortedTransactions?: readonly AbortedTransaction[] | null;
  /** Version 11+; -1 or absent: none. */
  readonly preferredReadReplica?: number;
  /** Bytes, a range of a file, or null. Kafka answers without records with no bytes, not with null. */
  readonly records: Part | null;
}

export interface FetchTopicResult {
  /** Name; from version 13 on the id (base64url). */
  readonly topic: string;
  readonly partitions: readonly FetchPartitionResult[];
}

export interface FetchResult {
  readonly throttleTimeMs: number;
  /** Version 7+. */
  readonly errorCode: number;
  /** Version 7+; 0: no session. */
  readonly sessionId: number;
  readonly responses: readonly FetchTopicResult[];
  /** Version 16+. */
  readonly nodeEndpoints?: readonly NodeEndpoint[];
}

/**
 * Writes the body of a response: what the Writer takes, from its position on, interleaved with the records. The parts
 * that lie in the Writer are valid until its next write or reset(). `from` is where the first part begins: before the
 * header, say.
 */
export function encodeFetchResponse(
  w: Writer,
  version: number,
  result: FetchResult,
  from: number = w.position,
): Part[] {
  if (version < MIN_VERSION || version > MAX_VERSION) throw versionUnwritable('FetchResponse', version);
  const flexible = version >= FIRST_FLEXIBLE;
  const { responses } = result;
  // The Writer may move its memory while it grows: what lies between the records is cut out of it at the end.
  const found = countRecords(responses);
  const cuts = new Array<number>(found);
  const parts = new Array<Part>(2 * found + 1);
  let count = 0;
  w.int32(result.throttleTimeMs);
  if (version >= 7) {
    w.int16(result.errorCode);
    w.int32(result.sessionId);
  }
  writeCount(w, flexible, responses.length);
  for (let t = 0; t < responses.length; t++) {
    const { topic, partitions } = responses[t]!;
    if (version >= FIRST_WITH_TOPIC_ID) w.uuid(topic);
    else if (flexible) w.compactString(topic);
    else w.string(topic);
    writeCount(w, flexible, partitions.length);
    for (let p = 0; p < partitions.length; p++) {
      const partition = partitions[p]!;
      writePartition(w, version, partition);
      if (partition.records !== null && partition.records.length > 0) {
        cuts[count] = w.position;
        parts[2 * count++ + 1] = partition.records;
      }
      if (flexible) writePartitionTags(w, partition);
    }
    if (flexible) w.int8(0);
  }
  if (version >= 16) writeNodeEndpoints(w, result.nodeEndpoints ?? []);
  else if (flexible) w.int8(0);

  // A partition's facts lie in front of its records; behind the last ones there may be nothing.
  let start = from;
  for (let i = 0; i < found; i++) {
    parts[2 * i] = w.slice(start, cuts[i]!);
    start = cuts[i]!;
  }
  if (w.position > start) parts[2 * found] = w.slice(start, w.position);
  else parts.length = 2 * found;
  return parts;
}

/** Partitions with records. */
function countRecords(responses: readonly FetchTopicResult[]): number {
  let count = 0;
  for (let t = 0; t < responses.length; t++) {
    const { partitions } = responses[t]!;
    for (let p = 0; p < partitions.length; p++) if ((partitions[p]!.records?.length ?? 0) > 0) count++;
  }
  return count;
}

/** Everything up to the records. */
function writePartition(w: Writer, version: number, partition: FetchPartitionResult): void {
  const flexible = version >= FIRST_FLEXIBLE;
  const at = w.take(version >= 5 ? 30 : 22);
  const b = w.memory;
  const { errorCode } = partition;
  putInt32(b, at, partition.partitionIndex);
  b[at + 4] = errorCode >> 8;
  b[at + 5] = errorCode;
  putInt64(b, at + 6, partition.highWatermark);
  putInt64(b, at + 14, partition.lastStableOffset);
  if (version >= 5) putInt64(b, at + 22, partition.logStartOffset);
  const { abortedTransactions: aborted, records } = partition;
  if (aborted === undefined || aborted === null) writeCount(w, flexible, -1);
  else {
    writeCount(w, flexible, aborted.length);
    for (let i = 0; i < aborted.length; i++) {
      w.int64(aborted[i]!.producerId);
      w.int64(aborted[i]!.firstOffset);
      if (flexible) w.int8(0);
    }
  }
  if (version >= 11) w.int32(partition.preferredReadReplica ?? -1);
  writeCount(w, flexible, records === null ? -1 : records.length);
}

function writePartitionTags(w: Writer, partition: FetchPartitionResult): void {
  const { divergingEpoch, currentLeader, snapshotId } = partition;
  const diverges = !isNowhere(divergingEpoch);
  const leads = !isNobody(currentLeader);
  const snapshot = !isNowhere(snapshotId);
  w.int8((diverges ? 1 : 0) + (leads ? 1 : 0) + (snapshot ? 1 : 0));
  if (diverges) {
    w.unsignedVarint(0);
    w.unsignedVarint(13);
    w.int32(divergingEpoch!.epoch);
    w.int64(divergingEpoch!.endOffset);
    w.int8(0);
  }
  if (leads) writeLeader(w, 1, currentLeader!);
  if (snapshot) {
    w.unsignedVarint(2);
    w.unsignedVarint(13);
    w.int64(snapshotId!.endOffset);
    w.int32(snapshotId!.epoch);
    w.int8(0);
  }
}

function isNowhere(value: EpochAndOffset | undefined): boolean {
  return value === undefined || (value.epoch === -1 && value.endOffset === -1);
}
