/** Features of the cluster: which levels this broker serves, and what it finalizes in a directory of its own. */

export interface FeatureRange {
  readonly name: string;
  readonly minSupportedVersion: number;
  readonly maxSupportedVersion: number;
}

export const METADATA_VERSION = 'metadata.version';
/** Finalized by control records of the metadata log. */
export const KRAFT_VERSION = 'kraft.version';
/** Level 1: the consumer protocol of groups (KIP-848). */
export const GROUP_VERSION = 'group.version';
/** Level 1: streams groups (KIP-1071). */
export const STREAMS_VERSION = 'streams.version';
/** Level 2: producers join partitions to a transaction by producing, and get a new epoch with its end (KIP-890). */
export const TRANSACTION_VERSION = 'transaction.version';

/** metadata.version levels of Apache Kafka 4.4: 3.3-IV3 to 4.4-IV2. */
export const MIN_METADATA_VERSION = 7;
export const MAX_METADATA_VERSION = 33;

/** metadata.version levels that brought records, or fields of them, which the level before could not hold. */
const METADATA_CHANGES = [8, 11, 13, 14, 15, 17, 23, 30, 32, 33];

/** metadata.version from which the log holds SCRAM credentials, and from which controllers can be unregistered. */
export const FIRST_WITH_SCRAM = 11;
export const FIRST_WITH_CONTROLLERS_UNREGISTERED = 33;

/** Whether a cluster that goes down from metadata.version `high` to `low` may have what `low` cannot hold. */
export function metadataChangedBetween(low: number, high: number): boolean {
  return METADATA_CHANGES.some((level) => level > low && level <= high);
}

/** What this broker serves, by name. Any other feature that a Kafka finalized is kept and not advertised. */
export const SERVED_FEATURES: readonly FeatureRange[] = [
  {
    name: METADATA_VERSION,
    minSupportedVersion: MIN_METADATA_VERSION,
    maxSupportedVersion: MAX_METADATA_VERSION,
  },
  { name: GROUP_VERSION, minSupportedVersion: 0, maxSupportedVersion: 1 },
  { name: STREAMS_VERSION, minSupportedVersion: 0, maxSupportedVersion: 1 },
  { name: TRANSACTION_VERSION, minSupportedVersion: 0, maxSupportedVersion: 2 },
  { name: KRAFT_VERSION, minSupportedVersion: 0, maxSupportedVersion: 1 },
];

/** Levels of a new directory; later only UpdateFeatures changes them. A feature that is missing has level 0, which Apache Kafka 4.4 takes (seen). */
export const INITIAL_FEATURES: ReadonlyMap<string, number> = new Map([
  [METADATA_VERSION, MAX_METADATA_VERSION],
  [GROUP_VERSION, 1],
  [STREAMS_VERSION, 1],
  [TRANSACTION_VERSION, 2],
]);
