/** The configuration of one topic: its own values over the broker's over the defaults, parsed. */
import { BroadsheetError } from '../runtime/errors.ts';
import type { BrokerConfig } from './broker-config.ts';
import {
  BROKER_CONFIGS,
  type ConfigDefinition,
  type ConfigValue,
  parseConfig,
  TOPIC_CONFIGS,
} from './definitions.ts';
import { suggestion } from './nearest.ts';

export interface TopicConfig {
  readonly cleanupPolicy: readonly string[];
  readonly segmentBytes: number;
  readonly segmentMs: number;
  readonly segmentJitterMs: number;
  readonly segmentIndexBytes: number;
  readonly indexIntervalBytes: number;
  readonly maxMessageBytes: number;
  /** Cap on what one compressed batch may unpack to, bytes. */
  readonly maxDecompressedMessageBytes: number;
  /** The codec that batches are stored in; `producer` leaves them as they came. */
  readonly compressionType: 'producer' | 'uncompressed' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  /** -1: the codec's own default. */
  readonly compressionGzipLevel: number;
  readonly compressionZstdLevel: number;
  readonly minInsyncReplicas: number;
  /** Records after which a flush is forced; 1 makes every acknowledgement wait for it. */
  readonly flushMessages: number;
  readonly flushMs: number;
  readonly messageTimestampType: 'CreateTime' | 'LogAppendTime';
  readonly messageTimestampBeforeMaxMs: number;
  readonly messageTimestampAfterMaxMs: number;
  readonly fileDeleteDelayMs: number;
  readonly retentionMs: number;
  readonly retentionBytes: number;
  readonly minCleanableDirtyRatio: number;
  readonly minCompactionLagMs: number;
  readonly maxCompactionLagMs: number;
  readonly deleteRetentionMs: number;
}

/** The broker's value for a key of topics or groups: the first synonym that is set, else the default. */
export function brokerText(definition: ConfigDefinition, broker: BrokerConfig): string | null {
  for (const synonym of definition.brokerSynonyms) {
    const text = broker.textIfSet(synonym.name);
    if (text === undefined) continue;
    if (text.startsWith('-')) return definition.name === 'retention.ms' ? '-1' : text;
    return synonym.factor === 1 ? text : String(BigInt(text) * BigInt(synonym.factor));
  }
  const primary = definition.brokerSynonyms[0];
  return (primary && BROKER_CONFIGS.get(primary.name)?.default) ?? definition.default;
}

/** Resolves the configuration of a topic. Throws INVALID_CONFIG. */
export function topicConfig(overrides: ReadonlyMap<string, string>, broker: BrokerConfig): TopicConfig {
  const value = (name: string): ConfigValue => {
    const definition = TOPIC_CONFIGS.get(name)!;
    const text = overrides.get(name) ?? brokerText(definition, broker);
    if (text === null) throw new BroadsheetError('INVALID_CONFIG', `${name} has no value`);
    return parseConfig(definition, text);
  };
  // "Never" is said with 2^63 - 1; a number that is exact means the same.
  const number = (name: string) => Math.min(value(name) as number, Number.MAX_SAFE_INTEGER);
  const internalSegmentBytes = overrides.get('internal.segment.bytes');
  return {
    cleanupPolicy: value('cleanup.policy') as string[],
    segmentBytes:
      internalSegmentBytes === undefined ? number('segment.bytes') : number('internal.segment.bytes'),
    segmentMs: number('segment.ms'),
    segmentJitterMs: number('segment.jitter.ms'),
    segmentIndexBytes: number('segment.index.bytes'),
    indexIntervalBytes: number('index.interval.bytes'),
    maxMessageBytes: number('max.message.bytes'),
    maxDecompressedMessageBytes: number('max.decompressed.message.bytes'),
    compressionType: value('compression.type') as TopicConfig['compressionType'],
    compressionGzipLevel: number('compression.gzip.level'),
    compressionZstdLevel: number('compression.zstd.level'),
    minInsyncReplicas: number('min.insync.replicas'),
    flushMessages: number('flush.messages'),
    flushMs: number('flush.ms'),
    messageTimestampType: value('message.timestamp.type') as TopicConfig['messageTimestampType'],
    messageTimestampBeforeMaxMs: number('message.timestamp.before.max.ms'),
    messageTimestampAfterMaxMs: number('message.timestamp.after.max.ms'),
    fileDeleteDelayMs: number('file.delete.delay.ms'),
    retentionMs: number('retention.ms'),
    retentionBytes: number('retention.bytes'),
    minCleanableDirtyRatio: number('min.cleanable.dirty.ratio'),
    minCompactionLagMs: number('min.compaction.lag.ms'),
    maxCompactionLagMs: number('max.compaction.lag.ms'),
    deleteRetentionMs: number('delete.retention.ms'),
  };
}

/** Checks the values that a client wants a topic to have, by Kafka's rules: an unknown key, a value out of bounds and
 * values that contradict each other are refused, since Apache Kafka would not start on them. Throws INVALID_CONFIG. */
export function validateTopicConfig(
  overrides: ReadonlyMap<string, string>,
  broker: BrokerConfig,
): TopicConfig {
  for (const [name, text] of overrides) {
    const definition = TOPIC_CONFIGS.get(name);
    if (definition === undefined) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `Unknown topic config name: ${name}${suggestion(name, TOPIC_CONFIGS.keys())}`,
      );
    }
    parseConfig(definition, text);
  }
  const number = (name: string) => {
    const definition = TOPIC_CONFIGS.get(name)!;
    return parseConfig(definition, overrides.get(name) ?? brokerText(definition, broker)!) as number;
  };
  const [least, most] = [number('min.compaction.lag.ms'), number('max.compaction.lag.ms')];
  if (least > most) {
    throw new BroadsheetError(
      'INVALID_CONFIG',
      `conflict topic config setting min.compaction.lag.ms (${least}) > max.compaction.lag.ms (${most})`,
    );
  }
  if (overrides.get('remote.storage.enable')?.trim().toLowerCase() === 'true') {
    throw new BroadsheetError(
      'INVALID_CONFIG',
      'Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.',
    );
  }
  return topicConfig(overrides, broker);
}
