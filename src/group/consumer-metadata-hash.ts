/** The fingerprint of the topics of a consumer group, as Apache Kafka keeps it in the group's record: another one means that
 * topics were made, deleted or got partitions. */
import { xxh3 } from '../protocol/xxh3.ts';
import type { TopicsView } from './consumer-types.ts';

const MAGIC = 0;

/** Racks are not counted: there is one node. */
function topicHash(name: string, topicId: string, partitions: number): bigint {
  const id = Buffer.from(topicId, 'base64url');
  const bytes = Buffer.alloc(1 + 16 + 2 * name.length + 4 + 4 + 4 * partitions);
  bytes.writeUInt8(MAGIC, 0);
  bytes.writeBigUInt64LE(id.readBigUInt64BE(0), 1);
  bytes.writeBigUInt64LE(id.readBigUInt64BE(8), 9);
  let at = 17 + bytes.write(name, 17, 'utf16le');
  at = bytes.writeInt32LE(name.length, at);
  at = bytes.writeInt32LE(partitions, at);
  for (let partition = 0; partition < partitions; partition++) at = bytes.writeInt32LE(partition, at);
  return xxh3(bytes);
}

/** Hashes of topics, kept until the topic is another. */
const KEPT = 10_000;
const kept = new Map<string, bigint>();

function keptTopicHash(name: string, topicId: string, partitions: number): bigint {
  const key = `${topicId} ${partitions}`;
  let hash = kept.get(key);
  if (hash === undefined) {
    if (kept.size >= KEPT) kept.clear();
    hash = topicHash(name, topicId, partitions);
    kept.set(key, hash);
  }
  return hash;
}

/** Of names in ascending order; those without a topic do not count. 0 for no topic at all. */
export function metadataHash(names: readonly string[], topics: TopicsView): bigint {
  const hashes: bigint[] = [];
  for (const name of names) {
    const topicId = topics.idOf(name);
    if (topicId !== undefined) hashes.push(keptTopicHash(name, topicId, topics.partitionCount(topicId)));
  }
  if (hashes.length === 0) return 0n;
  const bytes = Buffer.alloc(8 * hashes.length);
  hashes.forEach((hash, index) => {
    bytes.writeBigInt64LE(hash, 8 * index);
  });
  return xxh3(bytes);
}
