/**
 * Whether a partition holds transactional data, which only an Apache Kafka can have written. Until this broker has
 * transactions it cannot tell aborted records from committed ones, so read_committed is refused there.
 */
import type { Partition } from '../log/partition.ts';

const TRANSACTIONAL_OR_CONTROL = 0x30;

/** Answers by partition; nothing that this broker appends changes one. */
const KNOWN = new WeakMap<Partition, boolean>();
const ASKED = new WeakMap<Partition, Promise<boolean>>();

/** True or false when it is known, else a promise: the first question reads the headers of all batches. */
export function hasTransactionalData(partition: Partition): boolean | Promise<boolean> {
  const known = KNOWN.get(partition);
  if (known !== undefined) return known;
  const asked = ASKED.get(partition) ?? scan(partition);
  ASKED.set(partition, asked);
  return asked;
}

async function scan(partition: Partition): Promise<boolean> {
  try {
    const found = await scanLog(partition);
    KNOWN.set(partition, found);
    return found;
  } finally {
    ASKED.delete(partition);
  }
}

async function scanLog(partition: Partition): Promise<boolean> {
  const { log } = partition;
  const end = log.writtenOffset;
  const bases = log.segmentBaseOffsets();
  for (const [index, base] of bases.entries()) {
    const from = Math.max(base, log.logStartOffset);
    const upTo = Math.min(bases[index + 1] ?? end, end);
    if (from >= upTo) continue;
    const batches = await log.scanBatches(from, upTo, true);
    if (batches.some((batch) => (batch.attributes & TRANSACTIONAL_OR_CONTROL) !== 0)) return true;
  }
  return false;
}
