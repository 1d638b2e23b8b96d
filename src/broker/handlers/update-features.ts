/**
 * UpdateFeatures (key 57), versions 0-2: finalizes other levels of features, all that are asked for or none. They are in
 * force when the answer comes.
 *
 * - v1 tells upgrades, safe and unsafe downgrades apart (v0: upgrades, and safe downgrades where allowed), and can only
 *   check.
 * - v2 leaves out the results by feature.
 *
 * Errors, for the whole request: INVALID_UPDATE_VERSION (a feature or level that this broker does not serve, a downgrade
 * of kraft.version, or of metadata.version past a level that changed the metadata), KAFKA_STORAGE_ERROR.
 */
import { UpgradeType } from '../../metadata/controller-features.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readUpdateFeaturesRequest,
  type UpdateFeaturesRequestFeatureUpdateKey,
  writeUpdateFeaturesResponse,
} from '../../protocol/generated/UpdateFeatures.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;
const LAST_WITH_RESULTS = 1;

function upgradeTypeOf(update: UpdateFeaturesRequestFeatureUpdateKey, version: number): number {
  if (version > 0) return update.upgradeType;
  return update.allowDowngrade ? UpgradeType.SAFE_DOWNGRADE : UpgradeType.UPGRADE;
}

function failure(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeUpdateFeaturesResponse(writer, version, { throttleTimeMs: 0, errorCode, errorMessage, results: [] });
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { featureUpdates, validateOnly } = readUpdateFeaturesRequest(request.body(), version);
  const updates = featureUpdates.map((update) => ({
    feature: update.feature,
    level: update.maxVersionLevel,
    upgradeType: upgradeTypeOf(update, version),
  }));
  const refusal = await broker.cluster.updateFeatures(updates, validateOnly);
  if (refusal !== undefined) {
    request.reply((writer) => failure(writer, version, refusal.errorCode, refusal.message));
    return;
  }
  const features = version <= LAST_WITH_RESULTS ? [...new Set(updates.map(({ feature }) => feature))] : [];
  request.reply((writer) =>
    writeUpdateFeaturesResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      errorMessage: null,
      // The text is Kafka's.
      results: features.map((feature) => ({ feature, errorCode: KafkaError.NONE, errorMessage: 'NONE' })),
    }),
  );
}

export const updateFeatures: HandlerRow = {
  key: 57,
  name: 'UpdateFeatures',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure,
};
