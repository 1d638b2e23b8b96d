import { Client } from '../../src/client/client.ts';
import type { Broker } from '../../src/index.ts';

/** A client for as long as `work` takes. */
export async function withClient<T>(broker: Broker, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await Client.connect(broker.bootstrapServers);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}
