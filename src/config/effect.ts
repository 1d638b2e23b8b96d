/** Which of Kafka's keys change nothing here. All of them are checked, and those that are stored are kept and shown; why each has no
 * effect is in docs/DIFFERENCES.md. */
import { BROKER_CONFIGS, baseKey, OWN_KEYS, TOPIC_CONFIGS } from './definitions.ts';

/** Topic keys without effect. */
export const TOPIC_KEYS_WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'compression.lz4.level',
  'errors.deadletterqueue.group.enable',
  'follower.replication.throttled.replicas',
  'leader.replication.throttled.replicas',
  'local.retention.bytes',
  'local.retention.ms',
  'preallocate',
  'remote.copy.lag.bytes',
  'remote.copy.lag.ms',
  'remote.log.copy.disable',
  'remote.log.delete.on.disable',
  'remote.storage.enable',
  'unclean.leader.election.enable',
]);

/** Broker keys that this broker obeys, besides those that give topics their defaults and those of groups. */
const OBEYED: ReadonlySet<string> = new Set([
  'advertised.listeners',
  'auto.create.topics.enable',
  'broker.id',
  'broker.rack',
  'connections.max.idle.ms',
  'controller.listener.names',
  'delete.topic.enable',
  'fetch.max.bytes',
  'group.coordinator.rebalance.protocols',
  'listener.security.protocol.map',
  'listeners',
  'log.cleaner.backoff.ms',
  'log.cleaner.dedupe.buffer.size',
  'log.cleaner.enable',
  'log.cleaner.io.buffer.load.factor',
  'log.cleaner.io.max.bytes.per.second',
  'log.dir',
  'log.dirs',
  'log.flush.offset.checkpoint.interval.ms',
  'log.flush.start.offset.checkpoint.interval.ms',
  'log.initial.task.delay.ms',
  'log.retention.check.interval.ms',
  'max.connections',
  'max.connections.per.ip',
  'max.connections.per.ip.overrides',
  'max.incremental.fetch.session.cache.slots',
  'max.request.partition.size.limit',
  'metadata.log.dir',
  'metadata.log.max.record.bytes.between.snapshots',
  'metadata.log.max.snapshot.interval.ms',
  'metadata.log.segment.bytes',
  'metadata.log.segment.ms',
  'metadata.max.retention.bytes',
  'metadata.max.retention.ms',
  'node.id',
  'num.partitions',
  'offset.metadata.max.bytes',
  'offsets.retention.check.interval.ms',
  'offsets.retention.minutes',
  'offsets.topic.compression.codec',
  'offsets.topic.num.partitions',
  'offsets.topic.segment.bytes',
  'process.roles',
  'producer.id.expiration.check.interval.ms',
  'producer.id.expiration.ms',
  'replica.high.watermark.checkpoint.interval.ms',
  'socket.receive.buffer.bytes',
  'socket.request.max.bytes',
  'socket.send.buffer.bytes',
  'transaction.abort.timed.out.transaction.cleanup.interval.ms',
  'transaction.max.timeout.ms',
  'transaction.partition.verification.enable',
  'transaction.remove.expired.transaction.cleanup.interval.ms',
  'transaction.state.log.min.isr',
  'transaction.state.log.num.partitions',
  'transaction.state.log.segment.bytes',
  'transactional.id.expiration.ms',
]);

/** Groups of all protocols but share groups; streams groups have no warmup copies, and no plugins. */
const GROUP_KEY =
  /^group\.(consumer\.|initial\.|max\.|min\.|streams\.(?!(num|max)\.warmup|assignor\.offload|topology\.))/;
/** With one node, copies beyond one have nowhere to go. */
const COPIES_KEY = /(\.|^)(replication\.factor|min\.isr)$/;

const TOPIC_DEFAULTS: ReadonlySet<string> = new Set(
  [...TOPIC_CONFIGS.values()]
    .filter(({ name }) => !TOPIC_KEYS_WITHOUT_EFFECT.has(name))
    .flatMap(({ brokerSynonyms }) => brokerSynonyms.map((synonym) => synonym.name)),
);

/** Whether a broker key that was given this value changes anything. Unknown keys do not. */
export function hasEffect(name: string, text: string): boolean {
  if (OBEYED.has(name) || OWN_KEYS.has(name) || TOPIC_DEFAULTS.has(name) || GROUP_KEY.test(name)) return true;
  return COPIES_KEY.test(name) && text.trim() === '1';
}

/** The keys among `given` that Kafka knows and that change nothing here. */
export function keysWithoutEffect(given: ReadonlyMap<string, string>): string[] {
  return [...given]
    .filter(([name, text]) => BROKER_CONFIGS.has(baseKey(name)) && !hasEffect(name, text))
    .map(([name]) => name)
    .sort();
}
