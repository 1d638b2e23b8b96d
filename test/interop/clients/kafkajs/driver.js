import { createRequire } from 'node:module';
import { compress, decompress, init } from '@bokuweb/zstd-wasm';
import kafkajs from 'kafkajs';
import snappy from 'kafkajs-snappy';
import { compressFrame, decompressFrame } from 'lz4-napi';
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

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;
const { version } = createRequire(import.meta.url)('kafkajs/package.json');

// kafkajs brings gzip; for the others it has a place for plugins.
await init();
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => compressFrame(encoder.buffer),
  decompress: (buffer) => decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const ready = {
  client: `kafkajs ${version}`,
  codecs: Object.keys(CODECS),
  protocols: ['classic'],
  features: ['idempotent', 'transactions', 'regex'],
};

serve(ready, (address) => {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [address], logLevel: logLevel.NOTHING });
  const producers = new Map();
  let consumer;
  let group;
  let positions;
  let inbox;
  let transactional;
  /** A producer gets its epoch with its first transaction. */
  let fresh;
  let transaction;

  async function producerFor(idempotent) {
    let producer = producers.get(idempotent);
    if (producer === undefined) {
      producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined });
      await producer.connect();
      producers.set(idempotent, producer);
    }
    return producer;
  }

  return {
    async produce({ topic, codec = 'none', idempotent = false, ...what }) {
      const producer = await producerFor(idempotent);
      await producer.send({ topic, compression: CODECS[codec], messages: recordsOf(what) });
    },
    async init({ transactionalId, timeoutMs }) {
      const config = {
        transactionalId,
        transactionTimeout: timeoutMs,
        idempotent: true,
        maxInFlightRequests: 1,
      };
      transactional = kafka.producer(config);
      await transactional.connect();
      fresh = await transactional.transaction();
    },
    async begin() {
      transaction = fresh ?? (await transactional.transaction());
      fresh = undefined;
    },
    async send({ topic, ...what }) {
      await transaction.send({ topic, messages: recordsOf(what) });
    },
    async transform({ topic, count }) {
      const records = await inbox.take(count);
      await transaction.send({ topic, messages: records.map(transformed) });
      await transaction.sendOffsets({ consumerGroupId: group, topics: offsetsAfter(records) });
    },
    async end({ commit }) {
      await (commit ? transaction.commit() : transaction.abort());
      inbox?.ended(commit);
    },
    async join({ group: groupId, topics, pattern, sessionTimeoutMs, isolation }) {
      group = groupId;
      inbox = new Inbox();
      positions = new Positions();
      consumer = kafka.consumer({
        groupId,
        sessionTimeout: sessionTimeoutMs,
        rebalanceTimeout: sessionTimeoutMs,
        heartbeatInterval: 250,
        metadataMaxAge: 1_000,
        maxWaitTimeInMs: 500,
        readUncommitted: isolation !== 'read_committed',
      });
      await consumer.connect();
      await consumer.subscribe({ topics: topics ?? [new RegExp(pattern)], fromBeginning: true });
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
          numbers.map((partition) => [topic, partition]),
        );
        positions.keep(partitions);
        tell.assignment(partitions);
      });
      consumer.on(consumer.events.CRASH, ({ payload }) => {
        if (!payload.restart) tell.error(payload.error);
      });
      await consumer.run({
        autoCommit: false,
        eachMessage: async ({ topic, partition, message }) => {
          const headers = Object.fromEntries(
            Object.entries(message.headers).map(([name, value]) => [name, text(value)]),
          );
          tell.record(topic, partition, message.offset, text(message.key), text(message.value), headers);
          positions.add(topic, partition, message.offset);
          const { offset, key, value } = message;
          inbox.add({ topic, partition, offset, key, value, headers });
        },
      });
    },
    async commit() {
      const offsets = positions.all().map((at) => ({ ...at, offset: String(at.offset) }));
      await consumer.commitOffsets(offsets);
    },
    async committed({ topics }) {
      const admin = kafka.admin();
      await admin.connect();
      const found = await admin.fetchOffsets({ groupId: group, topics });
      await admin.disconnect();
      return Object.fromEntries(
        found.flatMap(({ topic, partitions }) =>
          partitions.map(({ partition, offset }) => [`${topic}-${partition}`, Number(offset)]),
        ),
      );
    },
    async leave() {
      await consumer.disconnect();
    },
  };
});
