/** Peers that ask for much and read nothing: what they cost, and who waits for them. */
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { createBroker } from '../../src/index.ts';
import { writeMetadataRequest } from '../../src/protocol/generated/Metadata.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { TestBroker } from './test-broker.ts';
import { TestClient } from './test-client.ts';

const METADATA = 3;
const VERSION = 9;
const KIB = 1024;
/** The bound of connection.ts. */
const MAX_UNSENT_BYTES = 256 * KIB;

it('begins no request while too many answers lie unread, and answers all in order once they are read', async () => {
  const broker = await TestBroker.start({ 'num.partitions': '40' });
  const client = new TestClient(broker);
  for (let i = 0; i < 20; i++) await client.createTopic(`topic-${i}`, 40);
  const { peer } = client;
  const first = peer.received.length;
  peer.stalled = true;
  const frames: Uint8Array[] = [];
  for (let i = 0; i < 60; i++) {
    frames.push(broker.frame(METADATA, VERSION, (w) => writeMetadataRequest(w, VERSION, { topics: null })));
  }
  const ids = frames.map((frame) => Buffer.from(frame).readInt32BE(4));
  broker.transport.tick(...frames.map((frame) => [peer, frame] as const));
  const answer = peer.received[first]!.length;
  expect(answer).toBeGreaterThan(16 * KIB);
  // What was answered before counts until the transport is asked.
  const most = 2 * Math.ceil((MAX_UNSENT_BYTES + 1) / (answer + 4));
  expect(peer.received.length - first).toBeLessThanOrEqual(most);
  expect(most).toBeLessThan(frames.length / 2);

  const other = new TestClient(broker);
  expect((await other.metadata({ topics: [] })).brokers).toHaveLength(1);

  while (peer.received.length - first < frames.length) {
    const before = peer.received.length;
    broker.transport.drain(peer);
    expect(peer.received.length).toBeGreaterThan(before);
  }
  expect(peer.received.slice(first).map((bytes) => bytes.readInt32BE(0))).toEqual(ids);
  await broker.close();
});

it.each(SOME_COMBINATIONS)(
  '$title keeps memory and other clients whole while many peers do it, and answers each once it reads',
  async ({ engine, transport }) => {
    const root = mkdtempSync(join(tmpdir(), 'broadsheet-unread-'));
    const broker = await createBroker({
      dataDir: join(root, 'data'),
      host: '127.0.0.1',
      port: 0,
      engine,
      transport,
      config: { 'connection.max.queued.requests': '1000' },
    });
    const sockets: net.Socket[] = [];
    try {
      const { host, port } = broker.listeners[0]!;
      const client = await Client.connect(`${host}:${port}`);
      await client.createTopics(
        Array.from({ length: 20 }, (_, i) => ({ name: `topic-${i}`, partitions: 50 })),
      );
      const count = 200;
      const pipeline = Buffer.concat(
        Array.from({ length: count }, (_, i) =>
          Buffer.concat([Buffer.from([0, 0, 0, 16]), metadataFrame(i)]),
        ),
      );
      const before = process.memoryUsage().rss;
      for (let i = 0; i < 50; i++) {
        const socket = net.connect(port, host);
        socket.pause();
        socket.on('error', () => {});
        sockets.push(socket);
        await new Promise((resolve) => socket.once('connect', resolve));
        socket.write(pipeline);
      }
      for (let i = 0; i < 50; i++) expect((await client.metadata([])).brokers.length).toBe(1);
      // Answered whole, they would take more than 300 MiB.
      expect(process.memoryUsage().rss - before).toBeLessThan(150 * KIB * KIB);

      const ids = await correlationIds(sockets[0]!, count);
      expect(ids).toEqual(Array.from({ length: count }, (_, i) => i));
      await client.close();
    } finally {
      for (const socket of sockets) socket.destroy();
      await broker.close();
      rmSync(root, { recursive: true, force: true });
    }
  },
);

/** Metadata v9 for all topics, 16 bytes: header without client id, no tags; null topics. */
function metadataFrame(correlationId: number): Buffer {
  const frame = Buffer.from([0, METADATA, 0, VERSION, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0]);
  frame.writeInt32BE(correlationId, 4);
  return frame;
}

/** Reads `count` answers and gives their correlation ids. */
function correlationIds(socket: net.Socket, count: number): Promise<number[]> {
  return new Promise((resolve) => {
    const ids: number[] = [];
    let rest = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      while (rest.length >= 8 && rest.length >= 4 + rest.readInt32BE(0)) {
        ids.push(rest.readInt32BE(4));
        rest = rest.subarray(4 + rest.readInt32BE(0));
      }
      if (ids.length === count) resolve(ids);
    });
    socket.resume();
  });
}
