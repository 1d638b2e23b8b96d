import { createRequire } from 'node:module';
import {
  Inbox,
  offsetsAfter,
  Positions,
  recordsOf,
  serve,
  tell,
  text,
  transformed,
} from './line-protocol.js';

const require = createRequire(import.meta.url);
const { KafkaJS } = require('@confluentinc/kafka-javascript');
const { version } = require('@confluentinc/kafka-javascript/package.json');

const ready = {
  client: `@confluentinc/kafka-javascript ${version}`,
  codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  protocols: ['classic', 'cooperative', 'consumer'],
  features: [
    'idempotent',
    'transactions',
    'transactions-consumer',
    'static',
    'static-consumer',
    'regex',
    'regex-later',
  ],
};

serve(ready, (address) => {
  const common = {
    'bootstrap.servers': address,
    'client.id': 'kafka-javascript',
    'topic.metadata.refresh.interval.ms': 1_000,
    'reconnect.backoff.max.ms': 500,
    log_level: 0,
  };
  const kafka = new KafkaJS.Kafka({});
  const producers = new Map();
  let consumer;
  let positions;
  let inbox;
  let transactional;
  let transaction;

  async function producerFor(codec, idempotent) {
    const key = `${codec} ${idempotent}`;
    let producer = producers.get(key);
    if (producer === undefined) {
      producer = kafka.producer({
        ...common,
        'compression.codec': codec,
        'enable.idempotence': idempotent,
        'linger.ms': 20,
      });
      await producer.connect();
      producers.set(key, producer);
    }
    return producer;
  }

  return {
    async produce({ topic, codec = 'none', idempotent = false, ...what }) {
      const producer = await producerFor(codec, idempotent);
      await producer.send({ topic, messages: recordsOf(what) });
    },
    async init({ transactionalId, timeoutMs }) {
      const config = { 'transactional.id': transactionalId, 'transaction.timeout.ms': timeoutMs };
      transactional = kafka.producer({ ...common, ...config, 'linger.ms': 20 });
      await transactional.connect();
    },
    async begin() {
      transaction = await transactional.transaction();
    },
    async send({ topic, ...what }) {
      await transaction.send({ topic, messages: recordsOf(what) });
    },
    async transform({ topic, count }) {
      const records = await inbox.take(count);
      await transaction.send({ topic, messages: records.map(transformed) });
      await transaction.sendOffsets({ consumer, topics: offsetsAfter(records) });
    },
    async end({ commit }) {
      await (commit ? transaction.commit() : transaction.abort());
      inbox?.ended(commit);
    },
    async join({ group, topics, pattern, protocol, instanceId, sessionTimeoutMs, isolation }) {
      inbox = new Inbox();
      positions = new Positions();
      const ofGroup =
        protocol === 'consumer'
          ? { 'group.protocol': 'consumer' }
          : {
              'session.timeout.ms': sessionTimeoutMs,
              'heartbeat.interval.ms': 250,
              'partition.assignment.strategy': protocol === 'cooperative' ? 'cooperative-sticky' : 'range',
            };
      consumer = kafka.consumer({
        ...common,
        ...ofGroup,
        'group.id': group,
        ...(instanceId !== undefined && { 'group.instance.id': instanceId }),
        'auto.offset.reset': 'earliest',
        'enable.auto.commit': false,
        'fetch.wait.max.ms': 500,
        'isolation.level': isolation ?? 'read_uncommitted',
        rebalance_cb: async (_error, _partitions, functions) => {
          void functions;
          setImmediate(tellAssignment);
        },
      });
      const joined = consumer;
      let told = '[]';
      function tellAssignment() {
        let partitions;
        try {
          partitions = joined.assignment().map(({ topic, partition }) => [topic, partition]);
        } catch {
          return;
        }
        const now = JSON.stringify(partitions);
        if (now === told) return;
        told = now;
        positions.keep(partitions);
        tell.assignment(partitions);
      }
      // The assignment is in force only some time after its callback.
      const watch = setInterval(() => (consumer === joined ? tellAssignment() : clearInterval(watch)), 50);
      await consumer.connect();
      await consumer.subscribe({ topics: topics ?? [new RegExp(pattern)] });
      await consumer.run({
        eachMessage: async ({ topic, partition, message }) => {
          const headers = Object.fromEntries(
            Object.entries(message.headers ?? {}).map(([name, value]) => [name, text([value].flat()[0])]),
          );
          tell.record(topic, partition, message.offset, text(message.key), text(message.value), headers);
          positions.add(topic, partition, message.offset);
          const { offset, key, value } = message;
          inbox.add({ topic, partition, offset, key, value, headers });
        },
      });
    },
    async commit() {
      // commitOffsets resolves when the commit is on its way, whatever becomes of it: only asking tells.
      const wanted = positions.all();
      for (let turns = 0; turns < 100; turns++) {
        await consumer.commitOffsets(wanted.map((at) => ({ ...at, offset: String(at.offset) })));
        await new Promise((resolve) => setTimeout(resolve, 50 * turns));
        const found = await consumer.committed(wanted, 10_000).catch(() => []);
        const offsets = new Map(found.map((at) => [`${at.topic}-${at.partition}`, Number(at.offset)]));
        if (wanted.every((at) => offsets.get(`${at.topic}-${at.partition}`) === at.offset)) return;
      }
      throw new Error('the commit did not arrive');
    },
    async committed({ topics }) {
      const partitions = consumer.assignment().filter(({ topic }) => topics.includes(topic));
      const found = await consumer.committed(partitions, 10_000);
      return Object.fromEntries(
        found.map(({ topic, partition, offset }) => [`${topic}-${partition}`, Number(offset)]),
      );
    },
    async leave() {
      const leaving = consumer;
      consumer = undefined;
      await leaving.disconnect();
    },
  };
});
