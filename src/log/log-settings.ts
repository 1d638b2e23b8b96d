/** How often the log manager does what it does by itself. */
import type { BrokerConfig } from '../config/broker-config.ts';

/** Intervals in ms. */
export interface LogManagerSettings {
  readonly recoveryPointCheckpointMs: number;
  readonly logStartCheckpointMs: number;
  readonly highWatermarkCheckpointMs: number;
  readonly producerExpirationMs: number;
  readonly producerExpirationCheckMs: number;
  readonly retentionCheckMs: number;
  /** Before the first check. */
  readonly retentionDelayMs: number;
}

export function logManagerSettings(config: BrokerConfig): LogManagerSettings {
  return {
    recoveryPointCheckpointMs: config.number('log.flush.offset.checkpoint.interval.ms'),
    logStartCheckpointMs: config.number('log.flush.start.offset.checkpoint.interval.ms'),
    highWatermarkCheckpointMs: config.number('replica.high.watermark.checkpoint.interval.ms'),
    get producerExpirationMs() {
      return config.number('producer.id.expiration.ms');
    },
    producerExpirationCheckMs: config.number('producer.id.expiration.check.interval.ms'),
    retentionCheckMs: config.number('log.retention.check.interval.ms'),
    retentionDelayMs: config.number('log.initial.task.delay.ms'),
  };
}
