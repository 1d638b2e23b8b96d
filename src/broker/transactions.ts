/** Puts the transaction coordinator together: its settings from the broker's, its topic and the partitions that it writes
 * markers to from the broker's. */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { GroupCoordinator } from '../group/group-coordinator.ts';
import { OFFSETS_TOPIC } from '../group/group-log.ts';
import { CoordinatorTopic } from '../log/coordinator-topic.ts';
import type { LogManager } from '../log/log-manager.ts';
import type { AppendListener, Partition } from '../log/partition.ts';
import type { TransactionMarker } from '../log/producer-state.ts';
import type { ClusterImage } from '../metadata/image.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import {
  type MarkerTarget,
  TransactionCoordinator,
  type TransactionSettings,
} from '../transaction/transaction-coordinator.ts';
import { createCoordinatorTopic } from './coordinator-topics.ts';
import type { Topics } from './topics.ts';

export const TRANSACTION_TOPIC = '__transaction_state';
const TIMEOUT_CHECK_KEY = 'transaction.abort.timed.out.transaction.cleanup.interval.ms';

export interface TransactionsParts {
  readonly config: BrokerConfig;
  readonly image: ClusterImage;
  readonly logs: LogManager;
  readonly topics: Topics;
  readonly groups: GroupCoordinator;
  readonly producerIds: { next(): Promise<number> };
  readonly clock: Clock;
  readonly log: Logger;
  /** The finalized level of transaction.version. */
  transactionVersion(): number;
  requestTick(): void;
}

interface Waiting {
  readonly partition: Partition;
  readonly marker: TransactionMarker;
  readonly done: (code: number) => void;
}

/** Writes markers to the partitions of this broker, and tells the groups of those among their offsets. */
class PartitionMarkers implements MarkerTarget, AppendListener {
  readonly #parts: TransactionsParts;
  readonly #waiting = new Map<number, Waiting>();
  #nextToken = 0;

  constructor(parts: TransactionsParts) {
    this.#parts = parts;
  }

  writeMarker(topic: string, index: number, marker: TransactionMarker, done: (code: number) => void): void {
    const { logs, clock, requestTick } = this.#parts;
    const refuse = (code: number) => queueMicrotask(() => done(code));
    const partition = logs.partition(topic, index);
    if (partition === undefined) {
      const missing = logs.failure(topic, index) === undefined;
      refuse(missing ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION : KafkaError.KAFKA_STORAGE_ERROR);
      return;
    }
    const token = this.#nextToken++;
    const rejection = partition.appendMarker(marker, clock.now(), this, token);
    if (rejection !== undefined) {
      refuse(rejection.code);
      return;
    }
    this.#waiting.set(token, { partition, marker, done });
    requestTick();
  }

  onAppended(token: number): void {
    const { partition, marker } = this.#waiting.get(token)!;
    if (partition.topic === OFFSETS_TOPIC)
      this.#parts.groups.offsets.endTransaction(partition.index, marker.producerId, marker.commit);
    this.#finish(token, KafkaError.NONE);
  }

  onAppendFailed(token: number, error: BroadsheetError): void {
    const { partition } = this.#waiting.get(token)!;
    this.#finish(token, partition.deleted ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION : kafkaCodeOf(error));
  }

  #finish(token: number, code: number): void {
    const { done } = this.#waiting.get(token)!;
    this.#waiting.delete(token);
    done(code);
  }
}

function transactionSettings({ config, transactionVersion }: TransactionsParts): TransactionSettings {
  return {
    maxTimeoutMs: config.number('transaction.max.timeout.ms'),
    expirationMs: config.number('transactional.id.expiration.ms'),
    expirationCheckMs: config.number('transaction.remove.expired.transaction.cleanup.interval.ms'),
    timeoutCheckMs:
      config.textIfSet(TIMEOUT_CHECK_KEY) === undefined ? undefined : config.number(TIMEOUT_CHECK_KEY),
    get transactionVersion() {
      return transactionVersion();
    },
  };
}

/** Loads all transactional ids. */
export async function openTransactions(
  parts: TransactionsParts,
): Promise<{ readonly transactions: TransactionCoordinator; readonly markers: MarkerTarget }> {
  const { config, image, logs, topics, producerIds, clock, log, requestTick } = parts;
  const topic = new CoordinatorTopic({
    name: TRANSACTION_TOPIC,
    subject: 'a transactional id',
    clock,
    log,
    partitionCount: () => image.topicsByName.get(TRANSACTION_TOPIC)?.partitions.size ?? 0,
    partition: (index) => logs.partition(TRANSACTION_TOPIC, index),
    create: () =>
      createCoordinatorTopic(
        topics,
        TRANSACTION_TOPIC,
        config.number('transaction.state.log.num.partitions'),
        {
          'cleanup.policy': 'compact',
          'compression.type': 'uncompressed',
          'min.insync.replicas': String(config.number('transaction.state.log.min.isr')),
          'segment.bytes': String(config.number('transaction.state.log.segment.bytes')),
          'unclean.leader.election.enable': 'false',
        },
      ),
    compression: 'none',
    requestTick,
  });
  const markers = new PartitionMarkers(parts);
  const settings = transactionSettings(parts);
  const transactions = new TransactionCoordinator({
    log: topic,
    markers,
    settings,
    producerIds,
    clock,
    logger: log,
  });
  await transactions.load();
  return { transactions, markers };
}
