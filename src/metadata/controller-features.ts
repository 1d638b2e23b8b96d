/** Which levels of features a cluster may go to, as pure functions. */
import { KafkaError } from '../protocol/errors.ts';
import type { Refusal } from './controller.ts';
import { type FeatureRange, KRAFT_VERSION, METADATA_VERSION, metadataChangedBetween } from './features.ts';
import type { MetadataRecordInput } from './records.ts';

/** How a level may change; UpdateFeaturesRequest's UpgradeType. */
export const UpgradeType = { UPGRADE: 1, SAFE_DOWNGRADE: 2, UNSAFE_DOWNGRADE: 3 } as const;

export interface FeatureUpdate {
  readonly feature: string;
  readonly level: number;
  readonly upgradeType: number;
}

export interface FeaturesDecision {
  readonly ok: true;
  readonly records: readonly MetadataRecordInput[];
  /** A new kraft.version: control records of the log tell of it, no FeatureLevel. */
  readonly kraftVersion: number | undefined;
}

/**
 * All updates, or the refusal of the first that cannot be made: nothing is changed then.
 *
 * @param levels finalized levels, by feature; a feature that is missing is at 0
 * @param served what this broker serves
 */
export function updateFeatures(
  levels: ReadonlyMap<string, number>,
  served: readonly FeatureRange[],
  updates: readonly FeatureUpdate[],
): FeaturesDecision | Refusal {
  const records: MetadataRecordInput[] = [];
  let kraftVersion: number | undefined;
  for (const update of updates) {
    const { feature, level } = update;
    const current = levels.get(feature) ?? 0;
    const fault = faultOf(update, current, served);
    if (fault !== undefined) {
      return {
        ok: false,
        errorCode: KafkaError.INVALID_UPDATE_VERSION,
        message: `nothing is updated: ${feature} cannot go from level ${current} to ${level}: ${fault}`,
      };
    }
    if (level === current) continue;
    if (feature === KRAFT_VERSION) kraftVersion = level;
    else records.push({ type: 'FeatureLevel', version: 0, data: { name: feature, featureLevel: level } });
  }
  return { ok: true, records, kraftVersion };
}

function faultOf(
  { feature, level, upgradeType }: FeatureUpdate,
  current: number,
  served: readonly FeatureRange[],
): string | undefined {
  if (upgradeType < UpgradeType.UPGRADE || upgradeType > UpgradeType.UNSAFE_DOWNGRADE) {
    return `upgrade type ${upgradeType} is not 1 (upgrade), 2 (safe downgrade) or 3 (unsafe downgrade)`;
  }
  if (level < 0) return 'a level is at least 0';
  const range = served.find(({ name }) => name === feature);
  if (range === undefined) return 'this broker does not serve the feature';
  const { minSupportedVersion, maxSupportedVersion } = range;
  if (level < minSupportedVersion || level > maxSupportedVersion) {
    return `this broker serves levels ${minSupportedVersion} to ${maxSupportedVersion}`;
  }
  if (level > current && upgradeType !== UpgradeType.UPGRADE) return 'it is an upgrade, ask for one';
  if (level >= current) return undefined;
  if (feature === KRAFT_VERSION) return 'this feature never goes down';
  if (upgradeType === UpgradeType.UPGRADE) return 'it is a downgrade, ask for a safe or an unsafe one';
  if (feature !== METADATA_VERSION || !metadataChangedBetween(level, current)) return undefined;
  return upgradeType === UpgradeType.SAFE_DOWNGRADE
    ? 'a downgrade might lose metadata that the lower level cannot hold'
    : 'unsafe downgrades of this feature are not supported';
}
