/** Suite `connections`: what a connection costs that is open, has asked once and says nothing more. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Probed } from '../../test/support/probed.ts';
import { startKafka, type Target } from '../broker-load.ts';
import { KAFKA_PORT } from '../groups/peers.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';

/** Of the scale's members: 10,000 at full scale. */
const CONNECTIONS_PER_MEMBER = 50;
/** ApiVersions version 0 without a client id. */
const REQUEST = Buffer.from('0000000a0012000000000001ffff', 'hex');

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;
}

async function open({ port }: Target, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(100, count - sockets.length) }, async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      socket.write(REQUEST);
      await once(socket, 'data');
      socket.pause();
      return socket;
    });
    sockets.push(...(await Promise.all(some)));
  }
  return sockets;
}

/** The first ones bring what all share. */
async function costOf(target: Target, count: number): Promise<Readonly<Record<string, Cost>>> {
  const first = await open(target, Math.max(count / 10, 100));
  await sleep(500);
  const before = residentBytes(target.pid);
  const sockets = await open(target, count);
  await sleep(500);
  const value = (residentBytes(target.pid) - before) / count / 1024;
  for (const socket of [...first, ...sockets]) socket.destroy();
  return { [`${count} idle connections, resident memory of each`]: { value, unit: 'KiB' } };
}

async function ofOurs(transport: 'native' | 'js', count: number): Promise<Readonly<Record<string, Cost>>> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-bench-'));
  const probed = await Probed.start({ dir, transport });
  try {
    return await costOf({ pid: probed.pid, port: Number(probed.address.split(':')[1]) }, count);
  } finally {
    await probed.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function ofKafka(count: number): Promise<Readonly<Record<string, Cost>>> {
  const kafka = await startKafka(KAFKA_PORT);
  if (kafka === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  try {
    return await costOf(kafka, count);
  } finally {
    await kafka.stop();
  }
}

export async function idleConnections({ rounds, members }: Scale): Promise<Comparison[]> {
  const count = members * CONNECTIONS_PER_MEMBER;
  const results: Comparison[] = [];
  for (const transport of ['native', 'js'] as const) {
    const found = await compareCosts(
      Math.min(rounds, 2),
      () => ofOurs(transport, count),
      () => ofKafka(count),
    );
    results.push(
      ...found.map((each) => ({ ...each, name: `transport=${transport}, ${each.name}, beside Kafka` })),
    );
  }
  return results;
}
