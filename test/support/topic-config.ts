import type { TopicConfig } from '../../src/config/topic-config.ts';
import type { LogManagerSettings } from '../../src/log/log-settings.ts';

/** Kafka's defaults, but for what a test wants otherwise. */
export function topicConfigForTests(overrides: Partial<TopicConfig> = {}): TopicConfig {
  return {
    cleanupPolicy: ['delete'],
    segmentBytes: 1 << 30,
    segmentMs: 7 * 86_400_000,
    segmentJitterMs: 0,
    segmentIndexBytes: 10 * 1024 * 1024,
    indexIntervalBytes: 4096,
    maxMessageBytes: 1_048_588,
    maxDecompressedMessageBytes: 1 << 30,
    compressionType: 'producer',
    compressionGzipLevel: -1,
    compressionZstdLevel: 3,
    minInsyncReplicas: 1,
    flushMessages: Number.MAX_SAFE_INTEGER,
    flushMs: Number.MAX_SAFE_INTEGER,
    messageTimestampType: 'CreateTime',
    messageTimestampBeforeMaxMs: Number.MAX_SAFE_INTEGER,
    messageTimestampAfterMaxMs: 3_600_000,
    fileDeleteDelayMs: 60_000,
    retentionMs: 7 * 86_400_000,
    retentionBytes: -1,
    minCleanableDirtyRatio: 0.5,
    minCompactionLagMs: 0,
    maxCompactionLagMs: Number.MAX_SAFE_INTEGER,
    deleteRetentionMs: 86_400_000,
    ...overrides,
  };
}

/** For managers over an engine that has no files to clean. */
export const NO_CLEANER = {
  enabled: false,
  backoffMs: 15_000,
  mapBytes: 1 << 20,
  mapLoadFactor: 0.9,
  bytesPerSecond: Number.MAX_SAFE_INTEGER,
};

/** Kafka's intervals, no limits, and nothing that cleans. */
export const LOG_SETTINGS: LogManagerSettings = {
  recoveryPointCheckpointMs: 60_000,
  dirtyBytes: 1 << 28,
  maxBytes: -1,
  logStartCheckpointMs: 60_000,
  highWatermarkCheckpointMs: 5_000,
  producerExpirationMs: 86_400_000,
  producerExpirationCheckMs: 600_000,
  retentionCheckMs: 300_000,
  retentionDelayMs: 30_000,
  cleaner: NO_CLEANER,
};
