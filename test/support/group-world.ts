/** The same topics, records and groups of both protocols on any broker: some with members, some that they have left. */
import { BrokerRefusal, Client, LATEST } from '../../src/client/client.ts';
import { GroupMember } from '../../src/client/group-member.ts';
import { commitOffsets } from '../../src/client/groups.ts';
import { ConsumerMember } from './consumer-member.ts';

const FIRST_DAY = Date.UTC(2024, 0, 1);
const DAY = 24 * 60 * 60 * 1000;

/** The records are old: nothing may remove them. */
const KEPT = { 'retention.ms': '-1' };

/** Groups that have lost their members and keep their offsets. */
export const EMPTY_GROUPS = ['g-simple', 'g-classic-empty', 'g-consumer-empty'] as const;
export const LIVE_GROUPS = ['g-classic', 'g-consumer'] as const;

/** Kafka answers CreateTopics before it leads all partitions, and the first commit makes `__consumer_offsets`. */
async function untilTaken(attempt: () => Promise<unknown>): Promise<void> {
  for (let turns = 0; ; turns++) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (!(error instanceof BrokerRefusal) || turns > 300) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

export class GroupWorld {
  readonly #clients: Client[] = [];
  readonly #leave: (() => Promise<void>)[] = [];

  /** Makes all of it; the members stay until leave(). */
  static async create(address: string): Promise<GroupWorld> {
    const world = new GroupWorld();
    const client = await world.#client(address, 'maker');
    const topics = { orders: 3, audit: 1, empty: 2 };
    await client.createTopics(
      Object.entries(topics).map(([name, partitions]) => ({ name, partitions, configs: KEPT })),
    );
    for (const [name, partitions] of Object.entries(topics)) {
      for (let partition = 0; partition < partitions; partition++) {
        await untilTaken(() => client.listOffset(name, partition, LATEST));
      }
    }
    for (let partition = 0; partition < 3; partition++) {
      for (let day = 0; day <= partition + 3; day++) {
        await client.produce('orders', partition, [
          { timestamp: FIRST_DAY + day * DAY, value: `order ${day}` },
        ]);
      }
    }
    await client.produce('audit', 0, [
      { timestamp: FIRST_DAY, value: 'a' },
      { timestamp: FIRST_DAY + 1, value: 'b' },
    ]);
    const offsets = [
      { topic: 'orders', partition: 0, offset: 2 },
      { topic: 'orders', partition: 1, offset: 5 },
      { topic: 'orders', partition: 2, offset: 0 },
      { topic: 'audit', partition: 0, offset: 1 },
    ];
    await untilTaken(() => commitOffsets(client, 'g-simple', offsets));
    await world.#classic(address, 'g-classic', 'classic-a', ['orders'], offsets.slice(0, 2));
    await world.#classic(address, 'g-classic-empty', 'classic-b', ['orders', 'audit'], offsets);
    await world.#leave.pop()!();
    await world.#consumer(address, 'g-consumer', 'consumer-a', ['orders'], 3, offsets.slice(1, 3));
    await world.#consumer(address, 'g-consumer', 'consumer-b', ['audit'], 1, []);
    await world.#consumer(address, 'g-consumer-empty', 'consumer-c', ['orders', 'audit'], 4, offsets);
    await world.#leave.pop()!();
    return world;
  }

  async #client(address: string, clientId: string): Promise<Client> {
    const client = await Client.connect(address, { clientId });
    this.#clients.push(client);
    return client;
  }

  async #classic(
    address: string,
    groupId: string,
    clientId: string,
    topics: readonly string[],
    offsets: Parameters<GroupMember['commit']>[0],
  ): Promise<void> {
    const member = new GroupMember(await this.#client(address, clientId), { groupId, topics });
    await member.join();
    await member.commit(offsets);
    this.#leave.push(() => member.leave());
  }

  async #consumer(
    address: string,
    groupId: string,
    name: string,
    subscribedTopicNames: readonly string[],
    partitions: number,
    offsets: Parameters<ConsumerMember['commit']>[0],
  ): Promise<void> {
    const client = await this.#client(address, name);
    const member = new ConsumerMember(client, groupId, name, { subscribedTopicNames });
    await member.join(partitions);
    if (offsets.length > 0) await member.commit(offsets);
    this.#leave.push(() => member.leave());
  }

  /** All members leave. */
  async leave(): Promise<void> {
    for (const leave of this.#leave.splice(0)) await leave();
    for (const client of this.#clients.splice(0)) await client.close();
  }

  /** Ends the members of a broker that is gone: it does not hear of it. */
  async abandon(): Promise<void> {
    for (const leave of this.#leave.splice(0)) await leave().catch(() => undefined);
    for (const client of this.#clients.splice(0)) await client.close();
  }
}
