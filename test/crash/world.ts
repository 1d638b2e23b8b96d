/** The topics, producers and expectations of one crash test, and what is done to them between two lives of the broker. */
import { Client, LATEST } from '../../src/client/client.ts';
import { errorName, KafkaError } from '../../src/protocol/errors.ts';
import type { RecordView } from '../../src/protocol/records/batch.ts';
import type { Random } from '../support/random.ts';
import { recordOf, senderOf } from './content.ts';
import { PartitionModel } from './model.ts';
import { isLost, Producer, type Target } from './producer.ts';

interface Fixed {
  readonly name: string;
  readonly partitions: number;
  readonly configs: Record<string, string>;
}

const TOPICS: readonly Fixed[] = [
  { name: 'plain', partitions: 3, configs: { 'internal.segment.bytes': '262144' } },
  { name: 'synced', partitions: 2, configs: { 'flush.messages': '1', 'internal.segment.bytes': '65536' } },
  {
    name: 'tiny',
    partitions: 2,
    configs: { 'internal.segment.bytes': '20000', 'index.interval.bytes': '500' },
  },
];

/** A topic that comes and goes. */
interface Passing {
  readonly name: string;
  state: 'creating' | 'there' | 'deleting' | 'gone';
  /** Records acknowledged, in its one partition. */
  acked: number;
  life: number;
}

export class World {
  readonly #random: Random;
  readonly #targets: Target[] = [];
  readonly producers: Producer[];
  readonly #topics: readonly Fixed[];
  readonly #passing: Passing[];
  readonly #producerIds = new Set<number>();
  readonly faults: string[] = [];

  /** Several share a broker by prefixes of their topics' names. */
  constructor(random: Random, prefix = '') {
    this.#random = random;
    this.#topics = TOPICS.map((topic) => ({ ...topic, name: `${prefix}${topic.name}` }));
    this.#passing = Array.from({ length: 4 }, (_, i) => ({
      name: `${prefix}passing-${i}`,
      state: 'gone',
      acked: 0,
      life: 0,
    }));
    for (const { name, partitions } of this.#topics) {
      for (let partition = 0; partition < partitions; partition++) {
        this.#targets.push({ topic: name, partition, model: new PartitionModel() });
      }
    }
    const all = this.#targets;
    this.producers = [
      new Producer('i5', { idempotent: true, acks: -1, inFlight: 5 }, all, random),
      new Producer('i1', { idempotent: true, acks: -1, inFlight: 1 }, all, random),
      new Producer('i3', { idempotent: true, acks: 1, inFlight: 3 }, all.slice(2, 6), random),
      new Producer('p1', { idempotent: false, acks: 1, inFlight: 8 }, all, random),
      new Producer('pa', { idempotent: false, acks: -1, inFlight: 8 }, all.slice(0, 4), random),
    ];
  }

  get targets(): readonly Target[] {
    return this.#targets;
  }

  get acknowledged(): number {
    return this.producers.reduce((sum, producer) => sum + producer.acknowledged, 0);
  }

  async createTopics(address: string): Promise<void> {
    const client = await Client.connect(address);
    await client.createTopics(this.#topics);
    await client.close();
  }

  /** Load until `done` or until the broker is gone. */
  async run(address: string, done: () => boolean): Promise<void> {
    await Promise.all([
      ...this.producers.map((producer) => producer.run(address, done)),
      this.#comeAndGo(address, done),
      this.#drawProducerIds(address, done),
    ]);
    for (const producer of this.producers) this.faults.push(...producer.faults.splice(0));
  }

  async #drawProducerIds(address: string, done: () => boolean): Promise<void> {
    await this.#connected(address, async (client) => {
      while (!done()) {
        const { producerId } = await client.initProducerId();
        if (this.#producerIds.has(producerId)) this.faults.push(`producer id ${producerId} came twice`);
        this.#producerIds.add(producerId);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
  }

  async #connected(address: string, work: (client: Client) => Promise<void>): Promise<void> {
    let client: Client | undefined;
    try {
      client = await Client.connect(address);
      await work(client);
    } catch (error) {
      if (!isLost(error)) this.faults.push((error as Error).message);
    } finally {
      await client?.close();
    }
  }

  async #comeAndGo(address: string, done: () => boolean): Promise<void> {
    await this.#connected(address, async (client) => {
      while (!done()) {
        const topic = this.#random.pick(this.#passing);
        if (topic.state === 'gone') {
          topic.state = 'creating';
          topic.life++;
          topic.acked = 0;
          await client.createTopics([{ name: topic.name, configs: { 'file.delete.delay.ms': '50' } }]);
          topic.state = 'there';
        } else if (this.#random.int(4) === 0) {
          topic.state = 'deleting';
          await client.deleteTopics([topic.name]);
          topic.state = 'gone';
        } else {
          await client.produce(topic.name, 0, [recordOf(`${topic.name}/${topic.life}`, topic.acked)]);
          topic.acked++;
        }
      }
    });
  }

  /** Looks at everything after a restart, before there is load again. `whole`: from the first offset on. */
  async verify(address: string, whole: boolean): Promise<void> {
    const client = await Client.connect(address);
    try {
      for (const { topic, partition, model } of this.#targets) {
        const { offset: end } = await client.listOffset(topic, partition, LATEST);
        const records: RecordView[] = [];
        let before: number | undefined;
        for await (const record of client.records(topic, partition, whole ? 0 : model.verified, { end })) {
          if (record.offset >= model.verified) {
            records.push(record);
          } else {
            if (record.offset !== (before ?? -1) + 1 || senderOf(record) === undefined)
              this.faults.push(`${topic}-${partition}: offset ${record.offset} is not what it was`);
            before = record.offset;
          }
        }
        const faults = model.verify(records, end);
        model.forgetUnknown();
        this.faults.push(...faults.map((fault) => `${topic}-${partition}: ${fault}`));
      }
      for (const topic of this.#passing) await this.#verifyPassing(client, topic);
    } catch (error) {
      this.faults.push(`verifying: ${(error as Error).message}`);
    } finally {
      await client.close();
    }
  }

  async #verifyPassing(client: Client, topic: Passing): Promise<void> {
    const code = (await client.metadata([topic.name])).topics[0]!.errorCode;
    const there = code === 0;
    if (!there && code !== KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
      this.faults.push(`${topic.name}: ${errorName(code)}`);
    if (there && topic.state === 'gone') this.faults.push(`${topic.name} was deleted and is there`);
    if (!there && topic.state === 'there') this.faults.push(`${topic.name} was created and is gone`);
    topic.state = there ? 'there' : 'gone';
    if (!there) return;
    const { offset: end } = await client.listOffset(topic.name, 0, LATEST);
    // One more may have been written without an answer.
    if (end < topic.acked || end > topic.acked + 1)
      this.faults.push(`${topic.name} ends at ${end}, ${topic.acked} were acknowledged`);
    const stream = `${topic.name}/${topic.life}`;
    for await (const record of client.records(topic.name, 0, 0, { end })) {
      const sender = senderOf(record);
      if (sender?.stream !== stream || sender.sequence !== record.offset)
        this.faults.push(`${topic.name}: offset ${record.offset} is not as it was sent`);
    }
    topic.acked = end;
  }
}
