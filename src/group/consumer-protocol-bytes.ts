/** What consumers of the classic protocol say within JoinGroup, and hear within SyncGroup: their subscription and their assignment,
 * each an int16 version and a body. */
import {
  type ConsumerProtocolSubscription,
  readConsumerProtocolAssignment,
  readConsumerProtocolSubscription,
  VERSIONS,
  writeConsumerProtocolAssignment,
} from '../protocol/generated/consumer-protocol.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { MemberAssignment } from './assignor.ts';
import type { TopicsView } from './consumer-types.ts';

/** A newer one is read as the newest that is known: versions only add to the end. */
const NEWEST = VERSIONS.ConsumerProtocolSubscription[1];

function parsed<T>(bytes: Uint8Array, read: (reader: Reader, version: number) => T): T | undefined {
  try {
    const reader = new Reader(bytes);
    const version = reader.int16();
    return version < 0 ? undefined : read(reader, Math.min(version, NEWEST));
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'MALFORMED') return undefined;
    throw error;
  }
}

/** Undefined for what does not parse. */
export function readSubscription(bytes: Uint8Array): ConsumerProtocolSubscription | undefined {
  return parsed(bytes, readConsumerProtocolSubscription);
}

interface NamedPartitions {
  readonly topic: string;
  readonly partitions: readonly number[];
}

/** By topic id; topics that do not exist are left out. */
export function byTopicId(named: readonly NamedPartitions[], topics: TopicsView): Map<string, number[]> {
  const assignment = new Map<string, number[]>();
  for (const { topic, partitions } of named) {
    const topicId = topics.idOf(topic);
    if (topicId === undefined || partitions.length === 0) continue;
    const all = new Set([...(assignment.get(topicId) ?? []), ...partitions]);
    assignment.set(
      topicId,
      [...all].sort((a, b) => a - b),
    );
  }
  return assignment;
}

/** No bytes are no partitions. Undefined for what does not parse. */
export function readAssignment(bytes: Uint8Array, topics: TopicsView): MemberAssignment | undefined {
  if (bytes.length === 0) return new Map();
  const read = parsed(bytes, readConsumerProtocolAssignment);
  return read === undefined ? undefined : byTopicId(read.assignedPartitions, topics);
}

/** In the version of a member's subscription. */
export function writeAssignment(
  assignment: MemberAssignment,
  subscription: Uint8Array,
  topics: TopicsView,
): Uint8Array {
  const version = Math.min(Math.max(new Reader(subscription).int16(), 0), NEWEST);
  const writer = new Writer(64);
  writer.int16(version);
  const assignedPartitions = [...assignment].flatMap(([topicId, partitions]) => {
    const topic = topics.nameOf(topicId);
    return topic === undefined ? [] : [{ topic, partitions }];
  });
  writeConsumerProtocolAssignment(writer, version, { assignedPartitions, userData: null });
  return writer.bytes();
}
