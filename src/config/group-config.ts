/** Configs of groups (KIP-848, KIP-932, KIP-1071): which values Kafka takes. A group's value must lie within the bounds that the
 * broker's own keys give. */
import { BroadsheetError } from '../runtime/errors.ts';
import type { BrokerConfig } from './broker-config.ts';
import { GROUP_CONFIGS, parseConfig } from './definitions.ts';
import { suggestion } from './nearest.ts';
import { brokerText } from './topic-config.ts';

/** Group key -> broker keys of its least and greatest value. */
const BOUNDS: readonly [key: string, least: string | undefined, greatest: string | undefined][] = [
  [
    'consumer.session.timeout.ms',
    'group.consumer.min.session.timeout.ms',
    'group.consumer.max.session.timeout.ms',
  ],
  [
    'consumer.heartbeat.interval.ms',
    'group.consumer.min.heartbeat.interval.ms',
    'group.consumer.max.heartbeat.interval.ms',
  ],
  [
    'consumer.assignment.interval.ms',
    'group.consumer.min.assignment.interval.ms',
    'group.consumer.max.assignment.interval.ms',
  ],
  ['share.session.timeout.ms', 'group.share.min.session.timeout.ms', 'group.share.max.session.timeout.ms'],
  [
    'share.heartbeat.interval.ms',
    'group.share.min.heartbeat.interval.ms',
    'group.share.max.heartbeat.interval.ms',
  ],
  [
    'share.assignment.interval.ms',
    'group.share.min.assignment.interval.ms',
    'group.share.max.assignment.interval.ms',
  ],
  [
    'share.record.lock.duration.ms',
    'group.share.min.record.lock.duration.ms',
    'group.share.max.record.lock.duration.ms',
  ],
  [
    'share.delivery.count.limit',
    'group.share.min.delivery.count.limit',
    'group.share.max.delivery.count.limit',
  ],
  [
    'share.partition.max.record.locks',
    'group.share.min.partition.max.record.locks',
    'group.share.max.partition.max.record.locks',
  ],
  [
    'streams.session.timeout.ms',
    'group.streams.min.session.timeout.ms',
    'group.streams.max.session.timeout.ms',
  ],
  [
    'streams.heartbeat.interval.ms',
    'group.streams.min.heartbeat.interval.ms',
    'group.streams.max.heartbeat.interval.ms',
  ],
  [
    'streams.assignment.interval.ms',
    'group.streams.min.assignment.interval.ms',
    'group.streams.max.assignment.interval.ms',
  ],
  ['streams.num.standby.replicas', undefined, 'group.streams.max.standby.replicas'],
  ['streams.num.warmup.replicas', undefined, 'group.streams.max.warmup.replicas'],
  ['streams.task.offset.interval.ms', 'group.streams.min.task.offset.interval.ms', undefined],
];

function refuse(message: string): never {
  throw new BroadsheetError('INVALID_CONFIG', message);
}

/** ISO 8601 duration as Java reads it, after `by_duration:`. */
const DURATION = /^by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{0,9})?S)?)?$/i;

function checkOffsetReset(text: string): void {
  if (text === 'latest' || text === 'earliest' || DURATION.test(text)) return;
  refuse(
    `Invalid value ${text} for configuration share.auto.offset.reset: expected latest, earliest or by_duration:PnDTnHnMn.nS`,
  );
}

function checkAssignor(text: string, broker: BrokerConfig): void {
  const known = broker.list('group.streams.assignors');
  if (!known.includes(text))
    refuse(`streams.assignor.name ${text} is none of group.streams.assignors: ${known.join(', ')}`);
}

/** Checks all values of one group. Throws INVALID_CONFIG. */
export function validateGroupConfigs(values: ReadonlyMap<string, string>, broker: BrokerConfig): void {
  for (const [name, text] of values) {
    const definition = GROUP_CONFIGS.get(name);
    if (definition === undefined)
      refuse(`Unknown group config name: ${name}${suggestion(name, GROUP_CONFIGS.keys())}`);
    if (name === 'share.auto.offset.reset') checkOffsetReset(text);
    else parseConfig(definition, text);
    if (name === 'streams.assignor.name') checkAssignor(text, broker);
  }
  const number = (name: string) => Number(values.get(name) ?? brokerText(GROUP_CONFIGS.get(name)!, broker));
  for (const [name, least, greatest] of BOUNDS) {
    if (!values.has(name)) continue;
    if (least !== undefined && number(name) < broker.number(least))
      refuse(`${name} must be greater than or equal to ${least} (${broker.number(least)})`);
    if (greatest !== undefined && number(name) > broker.number(greatest))
      refuse(`${name} must be less than or equal to ${greatest} (${broker.number(greatest)})`);
  }
  for (const kind of ['consumer', 'share', 'streams']) {
    const [session, heartbeat] = [`${kind}.session.timeout.ms`, `${kind}.heartbeat.interval.ms`];
    if (number(session) <= number(heartbeat)) refuse(`${session} must be greater than ${heartbeat}`);
  }
}
