import { readFileSync } from 'node:fs';
import { Consumer, Producer } from '@platformatic/kafka';
import { Positions, recordsOf, serve, tell, text } from './line-protocol.js';

const { version } = JSON.parse(readFileSync('node_modules/@platformatic/kafka/package.json', 'utf8'));

const ready = {
  client: `@platformatic/kafka ${version} on Node ${process.versions.node}`,
  codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  protocols: ['classic', 'consumer'],
  features: ['idempotent', 'static'],
};

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

  function producerFor(idempotent) {
    let producer = producers.get(idempotent);
    if (producer === undefined) {
      producer = new Producer({ ...common, idempotent });
      producers.set(idempotent, producer);
    }
    return producer;
  }

  const bytes = (value) => (value === null ? undefined : Buffer.from(value));

  return {
    async produce({ topic, codec = 'none', idempotent = false, ...what }) {
      const messages = recordsOf(what).map(({ key, value, headers }) => ({
        topic,
        key: bytes(key),
        value: bytes(value),
        headers: new Map(Object.entries(headers).map(([name, to]) => [Buffer.from(name), Buffer.from(to)])),
      }));
      await producerFor(idempotent).send({ messages, compression: codec, acks: -1 });
    },
    async join({ group, topics, protocol, instanceId, sessionTimeoutMs }) {
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
      stream.on('data', ({ topic, partition, offset, key, value, headers }) => {
        const named = Object.fromEntries([...headers].map(([name, to]) => [text(name), text(to)]));
        tell.record(topic, partition, offset, text(key), text(value), named);
        positions.add(topic, partition, offset);
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
