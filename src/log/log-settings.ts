/** How often the log manager does what it does by itself. */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { CleanerSettings } from './log-cleaner.ts';

/** Intervals in ms, sizes in bytes. */
export interface LogManagerSettings {
  readonly recoveryPointCheckpointMs: number;
  /** Written and not asked to be flushed, after which all is flushed. */
  readonly dirtyBytes: number;
  /** What the segments of all logs may take; negative: no limit. */
  readonly maxBytes: number;
  readonly logStartCheckpointMs: number;
  readonly highWatermarkCheckpointMs: number;
  readonly producerExpirationMs: number;
  readonly producerExpirationCheckMs: number;
  readonly retentionCheckMs: number;
  /** Before the first check. */
  readonly retentionDelayMs: number;
  readonly cleaner: CleanerSettings;
}

export function logManagerSettings(config: BrokerConfig): LogManagerSettings {
  return {
    recoveryPointCheckpointMs: config.number('log.flush.offset.checkpoint.interval.ms'),
    dirtyBytes: config.number('log.flush.dirty.bytes'),
    maxBytes: config.number('log.disk.max.bytes'),
    logStartCheckpointMs: config.number('log.flush.start.offset.checkpoint.interval.ms'),
    highWatermarkCheckpointMs: config.number('replica.high.watermark.checkpoint.interval.ms'),
    get producerExpirationMs() {
      return config.number('producer.id.expiration.ms');
    },
    producerExpirationCheckMs: config.number('producer.id.expiration.check.interval.ms'),
    retentionCheckMs: config.number('log.retention.check.interval.ms'),
    retentionDelayMs: config.number('log.initial.task.delay.ms'),
    cleaner: {
      enabled: config.boolean('log.cleaner.enable'),
      get backoffMs() {
        return config.number('log.cleaner.backoff.ms');
      },
      get mapBytes() {
        return config.number('log.cleaner.dedupe.buffer.size');
      },
      get mapLoadFactor() {
        return config.number('log.cleaner.io.buffer.load.factor');
      },
      get bytesPerSecond() {
        return config.number('log.cleaner.io.max.bytes.per.second');
      },
    },
  };
}
