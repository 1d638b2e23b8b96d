import { expect, it } from 'vitest';
import { CoordinatorTopic, partitionOf } from '../../src/log/coordinator-topic.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';

it('finds a group where Apache Kafka puts it', () => {
  // Of a directory that Kafka 4.4 wrote with three partitions; the hashes of all but the first are negative.
  const seen = { 'group-consumer': 1, 'group-by-admin': 2, 'group-alive-consumer': 2, 'group-classic': 1 };
  for (const [groupId, partition] of Object.entries(seen)) expect(partitionOf(groupId, 3)).toBe(partition);
  // Its hash is -2^31, which has no absolute value in Java.
  expect(partitionOf('polygenelubricants', 50)).toBe(0);
});

it('tries to make the topic once a second, however often it is asked', async () => {
  const clock = new VirtualClock();
  let tries = 0;
  let partitions = 0;
  const topic = new CoordinatorTopic({
    ...{ name: '__consumer_offsets', subject: 'a group', clock, log: silentLogger, compression: 'none' },
    partitionCount: () => partitions,
    partition: () => undefined,
    create: async () => {
      tries++;
      return partitions === 0 ? KafkaError.COORDINATOR_NOT_AVAILABLE : KafkaError.NONE;
    },
    requestTick() {},
  });
  const answers: number[] = [];
  const ask = () => void topic.prepare()!.then((code) => answers.push(code));
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  ask();
  await settle();
  clock.advance(999);
  ask();
  await settle();
  expect([tries, answers]).toEqual([1, []]);
  clock.advance(1);
  await settle();
  expect(answers).toEqual([KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE]);
  ask();
  await settle();
  partitions = 50;
  clock.advance(1000);
  await settle();
  expect([tries, topic.prepare()]).toEqual([2, undefined]);
});
