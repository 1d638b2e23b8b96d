import { expect, it } from 'vitest';
import { partitionOf } from '../../src/log/coordinator-topic.ts';

it('finds a group where Apache Kafka puts it', () => {
  // Of a directory that Kafka 4.4 wrote with three partitions; the hashes of all but the first are negative.
  const seen = { 'group-consumer': 1, 'group-by-admin': 2, 'group-alive-consumer': 2, 'group-classic': 1 };
  for (const [groupId, partition] of Object.entries(seen)) expect(partitionOf(groupId, 3)).toBe(partition);
  // Its hash is -2^31, which has no absolute value in Java.
  expect(partitionOf('polygenelubricants', 50)).toBe(0);
});
