/** Two brokers side by side for suites about groups: this checkout's and Apache Kafka, ready to coordinate. */
import { setTimeout as sleep } from 'node:timers/promises';
import { APIS } from '../../src/client/apis.ts';
import { Connection } from '../../src/client/connection.ts';
import { type Server, startBroadsheet, startKafka, type Target } from '../broker-load.ts';

export const KAFKA_PORT = Number(process.env.BROADSHEET_KAFKA_PORT ?? 22290);

/** Kafka makes the topic of its groups when it is asked for a coordinator. */
export async function untilCoordinates({ port }: Target): Promise<void> {
  const connection = await Connection.connect({ host: '127.0.0.1', port });
  await connection.negotiate();
  for (;;) {
    const answer = await connection.request(APIS.findCoordinator, { keyType: 0, coordinatorKeys: ['bench'] });
    if (answer.coordinators[0]?.errorCode === 0) break;
    await sleep(100);
  }
  connection.close();
}

export async function startPeer(peer?: 'broadsheet'): Promise<Server> {
  const server = peer === 'broadsheet' ? await startBroadsheet() : await startKafka(KAFKA_PORT);
  if (server === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  return server;
}

export async function withPeers<T>(
  peer: 'broadsheet' | undefined,
  use: (ours: Target, theirs: Target) => Promise<T>,
): Promise<T> {
  const theirs = await startPeer(peer);
  try {
    const ours = await startBroadsheet();
    try {
      await untilCoordinates(ours);
      await untilCoordinates(theirs);
      return await use(ours, theirs);
    } finally {
      await ours.stop();
    }
  } finally {
    await theirs.stop();
  }
}
