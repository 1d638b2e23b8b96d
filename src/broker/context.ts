/** What handlers see of the broker. */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { GroupCoordinator } from '../group/group-coordinator.ts';
import type { BatchInspector } from '../log/batch-inspector.ts';
import type { DiskReserve } from '../log/disk-reserve.ts';
import type { Partition } from '../log/partition.ts';
import type { ClusterImage } from '../metadata/image.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { MarkerTarget, TransactionCoordinator } from '../transaction/transaction-coordinator.ts';
import type { ClusterAdmin } from './cluster-admin.ts';
import type { Configs } from './configs.ts';
import type { DelayedFetches } from './delayed-fetch.ts';
import type { FetchSessionCache } from './fetch-session-cache.ts';
import type { HandlerRow } from './handlers/handler.ts';
import type { Listeners } from './listeners.ts';
import type { Topics } from './topics.ts';

export interface FeatureLevels {
  readonly supportedFeatures: readonly { name: string; minVersion: number; maxVersion: number }[];
  readonly finalizedFeatures: readonly { name: string; minVersionLevel: number; maxVersionLevel: number }[];
  /** Grows with every change of the finalized ones. */
  readonly finalizedFeaturesEpoch: number;
}

export interface BrokerContext {
  readonly clusterId: string;
  /** The one log directory, an absolute path. */
  readonly dataDir: string;
  readonly nodeId: number;
  readonly rack: string | null;
  /** Gives the values now in force. */
  readonly config: BrokerConfig;
  readonly image: ClusterImage;
  readonly topics: Topics;
  readonly configs: Configs;
  readonly disk: Pick<DiskReserve, 'refusal'>;
  readonly groups: GroupCoordinator;
  readonly transactions: TransactionCoordinator;
  /** Writes ends of transactions. */
  readonly markers: MarkerTarget;
  readonly cluster: ClusterAdmin;
  readonly listeners: Listeners;
  readonly fetches: DelayedFetches;
  readonly sessions: FetchSessionCache;
  /** Judges produced batches. */
  readonly inspector: BatchInspector;
  readonly producerIds: { next(): Promise<number> };
  readonly handlers: ReadonlyMap<number, HandlerRow>;
  readonly clock: Clock;
  readonly log: Logger;
  partition(topic: string, index: number): Partition | undefined;
  /** What to answer for a partition that partition() does not give: it does not exist, or could not be opened. */
  missingCode(topic: string, index: number): number;
  partitionById(topicId: string, index: number): Partition | undefined;
  /** All partitions that could be opened. */
  partitions(): Partition[];
  /** Makes it durable where logs start. */
  checkpointLogStarts(): Promise<void>;
  /** Of the file system that holds the log directory, bytes. */
  space(): Promise<{ readonly totalBytes: number; readonly usableBytes: number }>;
  features(): FeatureLevels;
}
