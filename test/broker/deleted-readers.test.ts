/** Readers that are in the middle of an answer when its topic is deleted: they get it whole, and the disk and descriptors come back. */
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import net from 'node:net';
import { expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { createBroker } from '../../src/index.ts';
import { readFetchResponse, writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import { readBatches } from '../../src/protocol/records/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { COMBINATIONS } from '../support/combinations.ts';
import { scratch } from '../support/logs.ts';
import { responseBody } from './test-broker.ts';

const FETCH = 1;
/** The last one that names topics. */
const VERSION = 12;
const MIB = 1 << 20;
/** More than the sockets between take. */
const ANSWER_BYTES = 24 * MIB;
const READERS = 4;
const value = (i: number) => Buffer.alloc(MIB / 2, `record ${i};`);

/** Asks for all of one partition, and reads nothing of the answer. */
async function ask(host: string, port: number): Promise<net.Socket> {
  const socket = net.connect(port, host);
  await once(socket, 'connect');
  socket.pause();
  const writer = new Writer();
  writer.int16(FETCH);
  writer.int16(VERSION);
  writer.int32(7);
  writer.int16(-1); // no client id
  writer.int8(0); // no tags
  writeFetchRequest(writer, VERSION, {
    maxWaitMs: 0,
    minBytes: 1,
    maxBytes: ANSWER_BYTES,
    topics: [{ topic: 't', partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: ANSWER_BYTES }] }],
  });
  const body = writer.bytes();
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length);
  socket.write(Buffer.concat([length, body]));
  // The answer has begun.
  await once(socket, 'readable');
  return socket;
}

async function answerOf(socket: net.Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of socket) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= 4 && length >= 4 + Buffer.concat(chunks.slice(0, 2)).readInt32BE(0)) break;
  }
  return Buffer.concat(chunks).subarray(4);
}

/** Segments that are open in this process, with the broker in it, and gone from the folder. */
function deletedFiles(dir: string): string[] {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ''; // that of the listing
    }
  });
  return targets.filter((target) => target.startsWith(dir) && target.endsWith('.log (deleted)'));
}

it.runIf(process.platform === 'linux').each(COMBINATIONS)(
  '$title gives them all of it, and lets go of the files then',
  async ({ engine, transport }) => {
    const config = { 'log.segment.delete.delay.ms': '0', 'message.max.bytes': String(2 * MIB) };
    const dataDir = scratch(true);
    const broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine, transport, config });
    const client = await Client.connect(broker.bootstrapServers);
    const sockets: net.Socket[] = [];
    try {
      const { host, port } = broker.listeners[0]!;
      await client.createTopics([
        { name: 't', partitions: 1 },
        { name: 'other', partitions: 1 },
      ]);
      const count = (2 * ANSWER_BYTES) / MIB + 4;
      for (let i = 0; i < count; i++) await client.produce('t', 0, [{ timestamp: 1, value: value(i) }]);
      for (let i = 0; i < READERS; i++) sockets.push(await ask(host, port));
      const parked = client.fetch('t', 0, count, { maxWaitMs: 60_000 });
      const told = expect(parked).rejects.toMatchObject({ kafkaError: 'UNKNOWN_TOPIC_ID' });

      const admin = await Client.connect(broker.bootstrapServers);
      await admin.deleteTopics(['t']);
      await told;
      await expect.poll(() => readdirSync(dataDir).filter((name) => name.startsWith('t-0'))).toEqual([]);
      await admin.produce('other', 0, [{ timestamp: 1, value: Buffer.from('x') }]);
      expect((await admin.listOffset('other', 0, -1)).offset).toBe(1);
      await admin.createTopics([{ name: 't', partitions: 1 }]);
      await admin.produce('t', 0, [{ timestamp: 1, value: Buffer.from('of the new one') }]);
      await admin.close();

      expect(deletedFiles(dataDir)).not.toEqual([]);
      for (const socket of sockets) {
        expect(socket.bytesRead).toBeLessThan(ANSWER_BYTES / 2);
        const body = await answerOf(socket);
        const answer = readFetchResponse(responseBody(body, FETCH, VERSION), VERSION);
        const { errorCode, records } = answer.responses[0]!.partitions[0]!;
        expect(errorCode).toBe(0);
        let next = 0;
        for (const batch of readBatches(records!)) {
          for (const record of batch.records()) {
            expect(record.offset).toBe(next);
            expect(value(next++).equals(record.value!)).toBe(true);
          }
        }
        expect(next).toBeGreaterThan((2 * ANSWER_BYTES) / MIB - 3);
      }
      await expect.poll(() => deletedFiles(dataDir)).toEqual([]);
    } finally {
      for (const socket of sockets) socket.destroy();
      await client.close();
      await broker.close();
    }
  },
);
