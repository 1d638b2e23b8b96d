/** What an administrator and consumers change, each as a number that only grows: after a kill it is what was acknowledged last, or
 * what was on its way. */
import {
  alterConfigs,
  createPartitions,
  deleteRecords,
  describeConfigs,
  type Resource,
  ResourceType,
} from '../../src/client/admin.ts';
import { api } from '../../src/client/apis.ts';
import { BrokerRefusal, Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { commitOffsets, committedOffsets } from '../../src/client/groups.ts';
import { alterQuotas, describeQuotas } from '../../src/client/quotas.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readConsumerGroupDescribeResponse,
  writeConsumerGroupDescribeRequest,
} from '../../src/protocol/generated/ConsumerGroupDescribe.ts';
import {
  readConsumerGroupHeartbeatResponse,
  writeConsumerGroupHeartbeatRequest,
} from '../../src/protocol/generated/ConsumerGroupHeartbeat.ts';
import { isLost } from './producer.ts';

export const KILLED = Symbol('killed');

export abstract class Ratchet {
  readonly name: string;
  /** Acknowledged. */
  acked = 0;
  /** The most that was ever asked for. */
  asked = 0;
  raised = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** Makes it `to`; what it is then. */
  abstract raise(client: Client, to: number): Promise<number>;
  abstract read(client: Client): Promise<number>;

  /** Until `killed`, or until the broker is gone. */
  async run(address: string, killed: Promise<typeof KILLED>, faults: string[]): Promise<void> {
    let client: Client | undefined;
    try {
      client = await Client.connect(address);
      for (;;) {
        this.asked = this.acked + 1;
        // The client would wait for the broker to come back.
        const raised = await Promise.race([this.raise(client, this.asked), killed]);
        if (raised === KILLED) break;
        this.acked = raised;
        this.asked = this.acked;
        this.raised++;
        // More of the kinds, less of each: none may fill the disk.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } catch (error) {
      if (!isLost(error)) faults.push(`${this.name}: ${(error as Error).message}`);
    } finally {
      await client?.close();
    }
  }

  async verify(client: Client): Promise<string | undefined> {
    const found = await this.read(client);
    const { acked, asked, name } = this;
    this.acked = found;
    this.asked = found;
    if (found >= acked && found <= asked) return undefined;
    return `${name} is ${found}; ${acked} was acknowledged${asked > acked ? `, ${asked} was on its way` : ''}`;
  }
}

const FIXED = 'fixed';
/** Records that are deleted one by one. */
const RECORDS = 2_000;

class Commits extends Ratchet {
  async raise(client: Client, to: number): Promise<number> {
    await commitOffsets(client, this.name, [{ topic: FIXED, partition: 0, offset: to }]);
    return to;
  }

  async read(client: Client): Promise<number> {
    return (await committedOffsets(client, this.name))[0]?.offset ?? 0;
  }
}

class Config extends Ratchet {
  readonly #resource: Resource;
  readonly #key: string;
  readonly #base: number;

  /** Its values are above `base`. */
  constructor(resource: Resource, key: string, base: number) {
    super(`${key} of '${resource.name}'`);
    this.#resource = resource;
    this.#key = key;
    this.#base = base;
  }

  async raise(client: Client, to: number): Promise<number> {
    await alterConfigs(client, this.#resource, [{ name: this.#key, value: String(this.#base + to) }]);
    return to;
  }

  async read(client: Client): Promise<number> {
    const [found] = await describeConfigs(client, [this.#resource]);
    const text = found!.configs.find(({ name }) => name === this.#key)?.value;
    // What was not set yet has the default.
    return Math.max(Number(text ?? 0) - this.#base, 0);
  }
}

class Partitions extends Ratchet {
  override acked = 1;

  async raise(client: Client, to: number): Promise<number> {
    await createPartitions(client, 'grows', to);
    return to;
  }

  async read(client: Client): Promise<number> {
    client.forget('grows');
    const { partitions } = await client.topic('grows');
    for (const { partitionIndex } of partitions) await client.listOffset('grows', partitionIndex, LATEST);
    return partitions.length;
  }
}

class LogStart extends Ratchet {
  async raise(client: Client, to: number): Promise<number> {
    const [deleted] = await deleteRecords(client, [{ topic: FIXED, partition: 0, offset: to }]);
    if (deleted!.errorCode !== KafkaError.NONE) throw new BrokerRefusal(deleted!.errorCode, 'deletion');
    return deleted!.lowWatermark;
  }

  async read(client: Client): Promise<number> {
    return (await client.listOffset(FIXED, 0, EARLIEST)).offset;
  }
}

class Quota extends Ratchet {
  readonly #entity = [{ entityType: 'user', entityName: 'u' }] as const;

  async raise(client: Client, to: number): Promise<number> {
    await alterQuotas(client, this.#entity, new Map([['producer_byte_rate', 1e9 + to]]));
    return to;
  }

  async read(client: Client): Promise<number> {
    return Math.max(((await describeQuotas(client, this.#entity)).get('producer_byte_rate') ?? 0) - 1e9, 0);
  }
}

/** `life-n` is made, and the one before it deleted. */
class Topics extends Ratchet {
  async raise(client: Client, to: number): Promise<number> {
    await client.createTopics([
      { name: `life-${to}`, partitions: 2, configs: { 'file.delete.delay.ms': '20' } },
    ]);
    if (to > 1) await client.deleteTopics([`life-${to - 1}`]);
    return to;
  }

  async read(client: Client): Promise<number> {
    const { topics } = await client.metadata();
    const lives = topics.flatMap(({ name }) => (name!.startsWith('life-') ? [Number(name!.slice(5))] : []));
    const newest = Math.max(0, ...lives);
    if (newest > 0)
      for (const partition of [0, 1]) await client.listOffset(`life-${newest}`, partition, LATEST);
    const left = lives.filter((life) => life < newest);
    // Between the two steps there are both.
    if (left.length > 1 || (newest === this.acked && left.length > 0)) return -1;
    for (const life of left) await client.deleteTopics([`life-${life}`]);
    return newest;
  }
}

const HEARTBEAT = api(
  ApiKey.ConsumerGroupHeartbeat,
  writeConsumerGroupHeartbeatRequest,
  readConsumerGroupHeartbeatResponse,
);
const DESCRIBE = api(
  ApiKey.ConsumerGroupDescribe,
  writeConsumerGroupDescribeRequest,
  readConsumerGroupDescribeResponse,
);

/** The epoch of a group of the consumer protocol, whose one member subscribes to something else each time. */
class Epoch extends Ratchet {
  async raise(client: Client, to: number): Promise<number> {
    const answer = await client.request(HEARTBEAT, {
      groupId: this.name,
      memberId: 'member',
      memberEpoch: this.acked,
      rebalanceTimeoutMs: 60_000,
      topicPartitions: [],
      subscribedTopicNames: [FIXED, `t${to}`],
    });
    if (answer.errorCode !== KafkaError.NONE) {
      throw new BrokerRefusal(answer.errorCode, `heartbeat in epoch ${this.acked}`, answer.errorMessage);
    }
    if (answer.memberEpoch < this.acked) throw new Error(`epoch ${answer.memberEpoch} is an older one`);
    return answer.memberEpoch;
  }

  async read(client: Client): Promise<number> {
    const { groups } = await client.request(DESCRIBE, {
      groupIds: [this.name],
      includeAuthorizedOperations: false,
    });
    const { errorCode, groupEpoch, members } = groups[0]!;
    if (errorCode === KafkaError.GROUP_ID_NOT_FOUND) return 0;
    if (errorCode !== KafkaError.NONE || members.length !== 1) return -1;
    const { memberEpoch } = members[0]!;
    // Its member comes to the group's epoch, which topics that come and go raise too.
    this.asked = Math.max(this.asked, memberEpoch);
    return memberEpoch <= groupEpoch ? memberEpoch : -1;
  }
}

export class Ratchets {
  readonly all: readonly Ratchet[] = [
    new Commits('group-a'),
    new Commits('group-b'),
    new Config({ type: ResourceType.TOPIC, name: FIXED }, 'retention.ms', 1e12),
    new Config({ type: ResourceType.BROKER, name: '' }, 'log.retention.ms', 1e12),
    new Config({ type: ResourceType.GROUP, name: 'group-a' }, 'consumer.session.timeout.ms', 45_000),
    new Partitions('partitions'),
    new LogStart('log start'),
    new Quota('quota'),
    new Topics('topics'),
    new Epoch('group-c'),
  ];
  readonly faults: string[] = [];

  static async create(address: string): Promise<Ratchets> {
    const client = await Client.connect(address);
    await client.createTopics([
      { name: FIXED, partitions: 1 },
      { name: 'grows', partitions: 1 },
    ]);
    await client.produce(
      FIXED,
      0,
      Array.from({ length: RECORDS }, (_, i) => ({ timestamp: Date.now(), value: `${i}` })),
    );
    await client.close();
    return new Ratchets();
  }

  async run(address: string, killed: Promise<typeof KILLED>): Promise<void> {
    await Promise.all(this.all.map((ratchet) => ratchet.run(address, killed, this.faults)));
  }

  async verify(address: string): Promise<void> {
    const client = await Client.connect(address);
    for (const ratchet of this.all) {
      const fault = await ratchet.verify(client).catch((error: Error) => `${ratchet.name}: ${error.message}`);
      if (fault !== undefined) this.faults.push(fault);
    }
    await client.close();
  }
}
