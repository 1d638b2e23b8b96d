/** Requests that only the coordinator of a group answers: find it, and try again where it moves or is still loading. */
import { APIS } from './apis.ts';
import { BrokerRefusal, type Client } from './client.ts';
import type { Connection } from './connection.ts';
import { retry } from './producer.ts';

const GROUP = 0;
const FIRST_BATCHED = 4;
/** A broker may have to make the topic of the groups first. */
const TIMEOUT_MS = 15_000;

export interface Coordinator {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

/** The broker that coordinates a group. Throws BROKER_REFUSED. */
export async function findCoordinator(client: Client, groupId: string): Promise<Coordinator> {
  const response = await client.request(APIS.findCoordinator, (version) =>
    version >= FIRST_BATCHED
      ? { keyType: GROUP, coordinatorKeys: [groupId] }
      : { key: groupId, keyType: GROUP },
  );
  const found = response.coordinators[0] ?? response;
  if (found.errorCode !== 0) {
    throw new BrokerRefusal(found.errorCode, `coordinator of group ${groupId}`, found.errorMessage);
  }
  return found;
}

/** Calls with a connection to the group's coordinator until the answer is not one that passes. */
export async function withCoordinator<T>(
  client: Client,
  groupId: string,
  call: (to: Connection, coordinator: Coordinator) => Promise<T>,
): Promise<T> {
  return retry(async () => {
    const coordinator = await findCoordinator(client, groupId);
    return call(await client.connectionTo(coordinator), coordinator);
  }, performance.now() + TIMEOUT_MS);
}

/** Throws BROKER_REFUSED for a code that is an error. */
export function refuse(errorCode: number, what: string, text: string | null = null): void {
  if (errorCode !== 0) throw new BrokerRefusal(errorCode, what, text);
}
