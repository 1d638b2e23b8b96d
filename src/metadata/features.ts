/** Features of the cluster: which levels this broker serves, and what it finalizes in a directory of its own. */

export interface FeatureRange {
  readonly name: string;
  readonly minSupportedVersion: number;
  readonly maxSupportedVersion: number;
}

export const METADATA_VERSION = 'metadata.version';

/** metadata.version levels of Apache Kafka 4.4: 3.3-IV3 to 4.4-IV2. */
export const MIN_METADATA_VERSION = 7;
export const MAX_METADATA_VERSION = 33;

/** What this broker serves, by name. Any other feature that a Kafka finalized is kept and not advertised. */
export const SERVED_FEATURES: readonly FeatureRange[] = [
  {
    name: METADATA_VERSION,
    minSupportedVersion: MIN_METADATA_VERSION,
    maxSupportedVersion: MAX_METADATA_VERSION,
  },
  { name: 'kraft.version', minSupportedVersion: 0, maxSupportedVersion: 1 },
];

/** Levels of a new directory. A feature that is missing has level 0, which Apache Kafka 4.4 takes (seen). */
export const INITIAL_FEATURES: ReadonlyMap<string, number> = new Map([
  [METADATA_VERSION, MAX_METADATA_VERSION],
]);
