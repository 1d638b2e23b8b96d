/**
 * Produce (API key 0), versions 3-13, by hand: a request is read without an object per partition, and its records stay
 * where they are. Agrees with generated/Produce.ts.
 *
 * 3-8 are not flexible, 9+ are; 5 adds the log start offset to answers, 8 errors of single records and a message, 10
 * the current leader and its endpoints, 13 names topics by id.
 */
import { NameCache } from './name-cache.ts';
import { type Reader, versionUnreadable } from './reader.ts';
import { putInt32, putInt64, versionUnwritable, type Writer } from './writer.ts';

const FIRST_FLEXIBLE = 9;
const FIRST_WITH_TOPIC_ID = 13;
const MIN_VERSION = 3;
const MAX_VERSION = 13;

/** Lists longer than this are given up after the request that needed them. */
const KEPT_LENGTH = 65_536;

/** A Produce request, in flat lists that are used again by the next read(). */
export class ProduceRequestReader {
  transactionalId: string | null = null;
  acks = 0;
  timeoutMs = 0;
  topicCount = 0;
  /** Name of each topic; from version 13 on its id (base64url). */
  topics: string[] = [];
  /** Partitions of topic t are those from partitionEnds[t - 1] (0 for the first) to before partitionEnds[t]. */
  partitionEnds: number[] = [];
  partitionCount = 0;
  /** Partition number of each. */
  partitions: number[] = [];
  /** Records of each: positions in the bytes that the Reader was given; start is -1 for null. */
  recordsStart: number[] = [];
  recordsEnd: number[] = [];
  readonly #names: NameCache;

  constructor(names: NameCache = new NameCache()) {
    this.#names = names;
  }

  /** Reads a whole request body. Throws MALFORMED; the lists are then undefined. */
  read(r: Reader, version: number): void {
    if (version < MIN_VERSION || version > MAX_VERSION) throw versionUnreadable('ProduceRequest', version);
    this.#begin();
    const flexible = version >= FIRST_FLEXIBLE;
    this.transactionalId = flexible ? r.compactNullableString() : r.nullableString();
    this.acks = r.int16();
    this.timeoutMs = r.int32();
    const byId = version >= FIRST_WITH_TOPIC_ID;
    const topics = flexible ? r.compactArrayCount(byId ? 18 : 3) : r.arrayCount(6);
    let at = 0;
    for (let t = 0; t < topics; t++) {
      this.topics[t] = byId ? this.#names.id(r) : this.#names.name(r, flexible);
      const partitions = flexible ? r.compactArrayCount(6) : r.arrayCount(8);
      for (let p = 0; p < partitions; p++, at++) {
        this.partitions[at] = r.int32();
        const length = flexible ? r.compactNullableBytesLength() : r.nullableBytesLength();
        if (length < 0) {
          this.recordsStart[at] = -1;
          this.recordsEnd[at] = -1;
        } else {
          this.recordsStart[at] = r.take(length);
          this.recordsEnd[at] = r.position;
        }
        if (flexible) r.skipTags();
      }
      if (flexible) r.skipTags();
      this.partitionEnds[t] = at;
    }
    if (flexible) r.skipTags();
    this.topicCount = topics;
    this.partitionCount = at;
  }

  #begin(): void {
    if (this.topics.length > KEPT_LENGTH || this.partitions.length > KEPT_LENGTH) {
      this.topics = [];
      this.partitionEnds = [];
      this.partitions = [];
      this.recordsStart = [];
      this.recordsEnd = [];
    }
    this.topicCount = 0;
    this.partitionCount = 0;
  }
}

export interface RecordError {
  /** Index of the record in its batch. */
  readonly batchIndex: number;
  readonly message: string | null;
}

export interface LeaderAndEpoch {
  readonly leaderId: number;
  readonly leaderEpoch: number;
}

export interface NodeEndpoint {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
  readonly rack: string | null;
}

export interface ProducePartitionResult {
  readonly index: number;
  readonly errorCode: number;
  /** -1 on error. */
  readonly baseOffset: number;
  /** ms since the epoch with LogAppendTime, -1 otherwise. */
  readonly logAppendTimeMs: number;
  /** -1 if unknown. */
  readonly logStartOffset: number;
  /** Version 8+. */
  readonly recordErrors?: readonly RecordError[];
  /** Version 8+. */
  readonly errorMessage?: string | null;
  /** Version 10+: who leads instead. */
  readonly currentLeader?: LeaderAndEpoch;
}

export interface ProduceTopicResult {
  /** Name; from version 13 on the id (base64url). */
  readonly topic: string;
  readonly partitions: readonly ProducePartitionResult[];
}

/** Writes the body of a response. */
export function writeProduceResponse(
  w: Writer,
  version: number,
  responses: readonly ProduceTopicResult[],
  throttleTimeMs = 0,
  nodeEndpoints: readonly NodeEndpoint[] = [],
): void {
  if (version < MIN_VERSION || version > MAX_VERSION) throw versionUnwritable('ProduceResponse', version);
  const flexible = version >= FIRST_FLEXIBLE;
  writeCount(w, flexible, responses.length);
  for (let t = 0; t < responses.length; t++) {
    const { topic, partitions } = responses[t]!;
    if (version >= FIRST_WITH_TOPIC_ID) w.uuid(topic);
    else if (flexible) w.compactString(topic);
    else w.string(topic);
    writeCount(w, flexible, partitions.length);
    for (let p = 0; p < partitions.length; p++) writePartition(w, version, partitions[p]!);
    if (flexible) w.int8(0);
  }
  w.int32(throttleTimeMs);
  if (!flexible) return;
  if (version < 10) w.int8(0);
  else writeNodeEndpoints(w, nodeEndpoints);
}

function writePartition(w: Writer, version: number, result: ProducePartitionResult): void {
  const flexible = version >= FIRST_FLEXIBLE;
  const at = w.take(version >= 5 ? 30 : 22);
  const b = w.memory;
  const { errorCode } = result;
  putInt32(b, at, result.index);
  b[at + 4] = errorCode >> 8;
  b[at + 5] = errorCode;
  putInt64(b, at + 6, result.baseOffset);
  putInt64(b, at + 14, result.logAppendTimeMs);
  if (version >= 5) putInt64(b, at + 22, result.logStartOffset);
  if (version < 8) return;
  const { recordErrors, errorMessage = null, currentLeader } = result;
  writeCount(w, flexible, recordErrors === undefined ? 0 : recordErrors.length);
  if (recordErrors !== undefined) {
    for (const { batchIndex, message } of recordErrors) {
      w.int32(batchIndex);
      if (!flexible) w.nullableString(message);
      else {
        w.compactNullableString(message);
        w.int8(0);
      }
    }
  }
  if (!flexible) {
    w.nullableString(errorMessage);
    return;
  }
  w.compactNullableString(errorMessage);
  if (version < 10 || isNobody(currentLeader)) w.int8(0);
  else {
    w.int8(1);
    writeLeader(w, 0, currentLeader!);
  }
}

export function writeCount(w: Writer, flexible: boolean, count: number): void {
  if (flexible) w.unsignedVarint(count + 1);
  else w.int32(count);
}

/** Left out of what is written: a tagged field at its default. */
export function isNobody(leader: LeaderAndEpoch | undefined): boolean {
  return leader === undefined || (leader.leaderId === -1 && leader.leaderEpoch === -1);
}

/** A leader as a tagged field. */
export function writeLeader(w: Writer, tag: number, leader: LeaderAndEpoch): void {
  w.unsignedVarint(tag);
  w.unsignedVarint(9);
  w.int32(leader.leaderId);
  w.int32(leader.leaderEpoch);
  w.int8(0);
}

/** The tagged fields that end a response: endpoints of leaders in tag 0. */
export function writeNodeEndpoints(w: Writer, endpoints: readonly NodeEndpoint[]): void {
  if (endpoints.length === 0) {
    w.int8(0);
    return;
  }
  w.int8(1);
  const at = w.beginTag(0);
  w.unsignedVarint(endpoints.length + 1);
  for (const { nodeId, host, port, rack } of endpoints) {
    w.int32(nodeId);
    w.compactString(host);
    w.int32(port);
    w.compactNullableString(rack);
    w.int8(0);
  }
  w.endTag(at);
}
