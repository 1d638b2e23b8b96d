/** What handlers see of the broker. */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { ClusterImage } from '../metadata/image.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { DelayedFetches } from './delayed-fetch.ts';
import type { HandlerRow } from './handlers/handler.ts';
import type { Listeners } from './listeners.ts';
import type { Topics } from './topics.ts';

export interface FeatureLevels {
  readonly supportedFeatures: readonly { name: string; minVersion: number; maxVersion: number }[];
  readonly finalizedFeatures: readonly { name: string; minVersionLevel: number; maxVersionLevel: number }[];
  /** Offset of the metadata log up to which the finalized ones are known. */
  readonly finalizedFeaturesEpoch: number;
}
