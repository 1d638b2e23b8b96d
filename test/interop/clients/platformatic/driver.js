import { readFileSync } from 'node:fs';
import { Consumer, Producer } from '@platformatic/kafka';
import { Inbox, Positions, recordsOf, serve, tell, text, transformed } from './line-protocol.js';

const { version } = JSON.parse(readFileSync('node_modules/@platformatic/kafka/package.json', 'utf8'));

const ready = {
  client: `@platformatic/kafka ${version} on Node ${process.versions.node}`,
  codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  protocols: ['classic', 'consumer'],
  features: ['idempotent', 'transactions', 'static'],
};

/** Lets an attempt pass that came while the coordinator was at work on the transaction. */
function concurrent(error) {
  if (!error.errors?.some(({ apiId }) => apiId === 'CONCURRENT_TRANSACTIONS')) throw error;
  return new Promise((resolve) => setTimeout(resolve, 50));
}

serve(ready, (address) => {
  const common = {
    bootstrapBrokers: [address],
    clientId: 'platformatic',
    metadataMaxAge: 1_000,
    retries: true,
    retryDelay: 200,
    autocreateTopics: true,
  };
  const producers = new Map();
  let consumer;
  let stream;
  let positions;
  let inbox;
  let transactional;
  /** A producer gets its epoch with its first transaction. */
  let fresh;
  let transaction;

  function producerFor(idempotent) {
    let producer = producers.get(idempotent);
    if (producer === undefined) {
      producer = new Producer({ ...common, idempotent });
      producers.set(idempotent, producer);
    }
    return producer;
  }

  const bytes = (value) => (value === null ? undefined : Buffer.from(value));

  const messageOf = (topic, { partition, key, value, headers }) => ({
    topic,
    ...(partition !== undefined && { partition }),
    key: bytes(key),
    value: bytes(value),
    headers: new Map(Object.entries(headers).map(([name, to]) => [Buffer.from(name), Buffer.from(to)])),
  });

  return {
    async produce({ topic, codec = 'none', idempotent = false, ...what }) {
      const messages = recordsOf(what).map((record) => messageOf(topic, record));
      await producerFor(idempotent).send({ messages, compression: codec, acks: -1 });
    },
    async init({ transactionalId, timeoutMs }) {
      // Without these it claims to have had id 0 before; its timeout is the transaction's too.
      const config = { producerId: -1n, producerEpoch: -1, timeout: timeoutMs };
      transactional = new Producer({ ...common, ...config, transactionalId, idempotent: true });
      // While the one before is still being aborted, it is for the application to try again.
      while (fresh === undefined) fresh = await transactional.beginTransaction().catch(concurrent);
    },
    async begin() {
      transaction = fresh ?? (await transactional.beginTransaction());
      fresh = undefined;
    },
    async send({ topic, ...what }) {
      const messages = recordsOf(what).map((record) => messageOf(topic, record));
      await transaction.send({ messages, acks: -1 });
    },
    async transform({ topic, count }) {
      const records = await inbox.take(count);
      const messages = records.map((record) => messageOf(topic, transformed(record)));
      await transaction.send({ messages, acks: -1 });
      await transaction.addConsumer(consumer);
      const last = new Map(records.map((record) => [`${record.topic}-${record.partition}`, record]));
      for (const { message } of last.values()) await transaction.addOffset(message);
    },
    async end({ commit }) {
      await (commit ? transaction.commit() : transaction.abort());
      inbox?.ended(commit);
    },
    async join({ group, topics, protocol, instanceId, sessionTimeoutMs, isolation }) {
      inbox = new Inbox();
      positions = new Positions();
      const ofGroup =
        protocol === 'consumer'
          ? { groupProtocol: 'consumer' }
          : {
              sessionTimeout: sessionTimeoutMs,
              rebalanceTimeout: sessionTimeoutMs,
              heartbeatInterval: 250,
            };
      const joined = new Consumer({
        ...common,
        ...ofGroup,
        groupId: group,
        ...(instanceId !== undefined && { groupInstanceId: instanceId }),
        autocommit: false,
        maxWaitTime: 500,
        isolationLevel: isolation === 'read_committed' ? 1 : 0,
      });
      consumer = joined;
      let told = '[]';
      const watch = setInterval(() => {
        if (consumer !== joined) return clearInterval(watch);
        const partitions = (joined.assignments ?? []).flatMap(({ topic, partitions: numbers }) =>
          numbers.map((partition) => [topic, partition]),
        );
        const now = JSON.stringify(partitions);
        if (now === told) return;
        told = now;
        positions.keep(partitions);
        tell.assignment(partitions);
      }, 50);
      joined.on('error', tell.error);
      stream = await joined.consume({ topics, mode: 'committed', fallbackMode: 'earliest' });
      stream.on('error', tell.error);
      stream.on('data', (message) => {
        const { topic, partition, offset, key, value, headers } = message;
        const named = Object.fromEntries([...headers].map(([name, to]) => [text(name), text(to)]));
        tell.record(topic, partition, offset, text(key), text(value), named);
        positions.add(topic, partition, offset);
        inbox.add({ topic, partition, offset, key, value, headers: named, message });
      });
    },
    async commit() {
      const offsets = positions.all().map((at) => ({ ...at, offset: BigInt(at.offset), leaderEpoch: -1 }));
      await consumer.commit({ offsets });
    },
    async committed({ topics }) {
      const wanted = consumer.assignments.filter(({ topic }) => topics.includes(topic));
      const found = await consumer.listCommittedOffsets({ topics: wanted });
      return Object.fromEntries(
        wanted.flatMap(({ topic, partitions }) =>
          partitions.map((partition) => [`${topic}-${partition}`, Number(found.get(topic)[partition])]),
        ),
      );
    },
    async leave() {
      const leaving = consumer;
      consumer = undefined;
      await leaving.close(true);
    },
  };
});
