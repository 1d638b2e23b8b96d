/** A broker is started on what a power cut left, and everything that was promised before is looked for, over the wire. */
import { APIS } from '../../../src/client/apis.ts';
import { EARLIEST, LATEST } from '../../../src/client/client.ts';
import { decodeFetched } from '../../../src/client/fetched.ts';
import type { OffsetCheckpoint } from '../../../src/log/checkpoints.ts';
import type { LogEngine } from '../../../src/log/log.ts';
import { errorName, KafkaError } from '../../../src/protocol/errors.ts';
import type { RecordView } from '../../../src/protocol/records/batch.ts';
import { BatchBuilder } from '../../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../../src/runtime/clock.ts';
import { CALLS } from '../../support/transaction-calls.ts';
import { DiskBroker } from './disk-broker.ts';
import type { FileJournal } from './file-journal.ts';
import type { Found, Ledger } from './ledger.ts';
import { TX_PARTITIONS, TX_TOPIC, take } from './transactions.ts';
import { brokerConfig, GROUP, type TopicState, type Workload } from './workload.ts';

export interface AfterCut {
  readonly dataDir: string;
  readonly engine: LogEngine;
  readonly journal: FileJournal;
  readonly workload: Workload;
  /** How many events of the workload's journal had happened. */
  readonly position: number;
  /** Of what lay on the disk, by topic and partition. */
  readonly recoveryPoints: OffsetCheckpoint;
  readonly logStarts: OffsetCheckpoint;
  /** Whether to produce, which changes what is there. */
  readonly goesOn: boolean;
}

/** Gives what is wrong, if anything; the broker is stopped then. */
export async function verify(options: AfterCut): Promise<string[]> {
  const { dataDir, engine, journal, workload } = options;
  const clock = new VirtualClock(workload.clock.now());
  let broker: DiskBroker;
  try {
    const config = brokerConfig(workload.mode);
    broker = await DiskBroker.start({ dataDir, engine, journal, clock, config });
  } catch (error) {
    return [`it does not start: ${(error as Error).message}`];
  }
  const checks = new Checks(broker, options);
  try {
    await journal.until(checks.run());
  } catch (error) {
    checks.faults.push(`${(error as Error).message}`);
  }
  if (checks.faults.length > 0) checks.faults.push(`its log: ${broker.log}`);
  try {
    await broker.close();
  } catch (error) {
    checks.faults.push(`it does not stop: ${(error as Error).message}; ${broker.log}`);
  }
  return checks.faults;
}

class Checks {
  readonly faults: string[] = [];
  readonly #broker: DiskBroker;
  readonly #options: AfterCut;

  constructor(broker: DiskBroker, options: AfterCut) {
    this.#broker = broker;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { workload, position } = this.#options;
    for (const topic of workload.topics) await this.#topic(topic);
    await this.#committed();
    await this.#transactions();
    const init = { transactionalId: null, transactionTimeoutMs: 1000, producerId: -1, producerEpoch: -1 };
    const { body } = await this.#broker.ask(APIS.initProducerId, 5, init);
    if (body.producerId <= workload.producerIds.at(position, -1))
      this.faults.push(`producer id ${body.producerId} was given out before`);
  }

  async #topic(topic: TopicState): Promise<void> {
    const { position } = this.#options;
    const { body } = await this.#broker.ask(APIS.metadata, 12, { topics: [{ name: topic.name }] });
    const { errorCode, partitions } = body.topics[0]!;
    const { state, ledgers } = topic.at(position);
    const there = errorCode === 0;
    if (topic.lost) return;
    if (!there && errorCode !== KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
      this.faults.push(`${topic.name}: ${errorName(errorCode)}`);
    if (there && state === 'gone') this.faults.push(`${topic.name} was deleted and is there`);
    if (!there && state === 'there') this.faults.push(`${topic.name} was made and is gone`);
    if (!there) return;
    if (partitions.length !== ledgers.length)
      this.faults.push(`${topic.name}: ${partitions.length} partitions`);
    for (const [index, ledger] of ledgers.entries()) await this.#partition(topic, index, ledger);
  }

  async #partition(topic: TopicState, index: number, ledger: Ledger): Promise<void> {
    const { workload, position, goesOn, recoveryPoints, logStarts } = this.#options;
    const found = await this.#read(topic.name, index);
    if (found === undefined) return;
    if (workload.bearsErrors) {
      const faults = ledger.faultsAfterErrors(found);
      if (goesOn && faults.length === 0) faults.push(...(await this.#takesMore(topic.name, index, found)));
      this.faults.push(...faults.map((fault) => `${ledger.name}: ${fault}`));
      return;
    }
    const acked = topic.isSynced(workload.mode) ? ledger.acked.at(position) : 0;
    const onDisk = recoveryPoints.get(topic.name, index) ?? 0;
    const must = Math.max(acked, ledger.durable.at(position), onDisk);
    const startMust = Math.max(ledger.start.at(position), logStarts.get(topic.name, index) ?? 0);
    const faults = ledger.faults(found, ledger.asked.at(position), must, startMust);
    const retained = topic.kind.configs['retention.bytes'] !== undefined;
    if (!retained && found.start > ledger.startAsked.at(position))
      faults.push(`starts at ${found.start}, and ${ledger.startAsked.at(position)} was asked for`);
    const certain = found.end > found.start && (!ledger.compacted || found.end === must);
    if (goesOn && faults.length === 0 && certain)
      faults.push(...(await this.#goOn(topic.name, index, ledger, found)));
    this.faults.push(...faults.map((fault) => `${ledger.name}: ${fault}`));
  }

  async #offset(topic: string, index: number, timestamp: number): Promise<number> {
    const { body } = await this.#broker.ask(APIS.listOffsets, 7, {
      replicaId: -1,
      isolationLevel: 0,
      topics: [{ name: topic, partitions: [{ partitionIndex: index, currentLeaderEpoch: -1, timestamp }] }],
    });
    const { errorCode, offset } = body.topics[0]!.partitions[0]!;
    if (errorCode !== 0) throw new Error(`ListOffsets of ${topic}-${index}: ${errorName(errorCode)}`);
    return offset;
  }

  async #read(topic: string, index: number, committedOnly = false): Promise<Found | undefined> {
    const start = await this.#offset(topic, index, EARLIEST);
    const end = await this.#offset(topic, index, LATEST);
    const records: RecordView[] = [];
    for (let offset = start; offset < end; ) {
      const partition = {
        ...{ partition: index, fetchOffset: offset, partitionMaxBytes: 1 << 20, logStartOffset: -1 },
      };
      const { body } = await this.#broker.ask(APIS.fetch, 12, {
        ...{ replicaId: -1, maxWaitMs: 0, minBytes: 0, maxBytes: 1 << 20, sessionId: 0, sessionEpoch: -1 },
        ...{ isolationLevel: committedOnly ? 1 : 0, forgottenTopicsData: [] },
        topics: [{ topic, partitions: [partition] }],
      });
      const fetched = body.responses[0]!.partitions[0]!;
      const where = `${topic}-${index} at ${offset} of ${end}`;
      if (fetched.errorCode !== 0) {
        this.faults.push(`${where}: ${errorName(fetched.errorCode)}`);
        return undefined;
      }
      let decoded: ReturnType<typeof decodeFetched>;
      try {
        decoded = decodeFetched(fetched, offset, committedOnly);
      } catch (error) {
        this.faults.push(`${where}: ${(error as Error).message}`);
        return undefined;
      }
      records.push(...decoded.records);
      if (decoded.nextOffset === offset) {
        // Compaction may have taken all there was.
        if ((fetched.records?.length ?? 0) > 0) this.faults.push(`${where}: nothing whole`);
        break;
      }
      offset = decoded.nextOffset;
    }
    return { start, end, records };
  }

  async #transactions(): Promise<void> {
    const { workload, position } = this.#options;
    if (!workload.wereTransactionsAt(position)) return;
    // What was open is aborted, what was about to end ends.
    await take(this.#broker);
    const values: string[] = [];
    for (let index = 0; index < TX_PARTITIONS; index++) {
      const found = await this.#read(TX_TOPIC, index, true);
      for (const { value } of found?.records ?? []) values.push(Buffer.from(value ?? []).toString());
    }
    this.faults.push(...workload.transactions.faults(values, position));
  }

  async #takesMore(topic: string, index: number, { end }: Found): Promise<string[]> {
    const record = { timestamp: this.#options.workload.clock.now(), key: 'one more', value: null };
    const { errorCode, baseOffset } = await this.#produce(
      topic,
      index,
      new BatchBuilder().append(record).build(),
    );
    return errorCode === 0 && baseOffset === end ? [] : [`one more: ${errorName(errorCode)}, ${baseOffset}`];
  }

  async #produce(topic: string, index: number, records: Uint8Array) {
    const { body } = await this.#broker.ask(APIS.produce, 9, {
      ...{ transactionalId: null, acks: -1, timeoutMs: 1000 },
      topicData: [{ name: topic, partitionData: [{ index, records: Uint8Array.from(records) }] }],
    });
    return body.responses[0]!.partitionResponses[0]!;
  }

  /** The producer sends the last batch that is there again, then the next one. */
  async #goOn(topic: string, index: number, ledger: Ledger, { start, end }: Found): Promise<string[]> {
    const { producer } = this.#options.workload;
    const last = ledger.batches.findLast(({ first, sequence }) => sequence >= 0 && first < end);
    const faults: string[] = [];
    if (last !== undefined && last.first >= start) {
      const { errorCode, baseOffset } = await this.#produce(topic, index, last.bytes);
      if (errorCode !== 0 || baseOffset !== last.first)
        faults.push(`what is at ${last.first} was sent again: ${errorName(errorCode)}, ${baseOffset}`);
    }
    const next = ledger.batches.find(({ first, sequence }) => sequence >= 0 && first >= end);
    if (next !== undefined && (last === undefined || last.first >= start) && producer.producerId >= 0) {
      const { errorCode, baseOffset } = await this.#produce(topic, index, next.bytes);
      if (errorCode !== 0 || baseOffset !== end)
        faults.push(`the next batch at ${end}: ${errorName(errorCode)}, ${baseOffset}`);
    }
    return faults;
  }

  async #committed(): Promise<void> {
    const { workload, position } = this.#options;
    const { asked, acked } = workload.committed;
    const { body } = await this.#broker.ask(CALLS.offsets, 8, {
      groups: [{ groupId: GROUP, topics: [{ name: 'synced', partitionIndexes: [0] }] }],
      requireStable: false,
    });
    const group = body.groups![0]!;
    if (asked.at(position) === 0) return;
    const committed = group.topics[0]?.partitions[0]?.committedOffset ?? -1;
    const must = workload.mode === 'synced' ? acked.at(position, -1) : -1;
    if (committed < must) this.faults.push(`the group's offset is ${committed}, ${must} was promised`);
    if (committed > asked.at(position)) this.faults.push(`the group's offset is ${committed}`);
  }
}
