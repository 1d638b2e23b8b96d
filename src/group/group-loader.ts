/** Makes the groups from the records of `__consumer_offsets`. */
import type { GroupMetadataValue } from '../protocol/generated/group-coordinator.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { ClassicGroup } from './classic-group.ts';
import { ClassicMember } from './classic-member.ts';
import type { ClassicHost } from './classic-types.ts';
import { ConsumerGroup } from './consumer-group.ts';
import type { ConsumerHost } from './consumer-types.ts';
import type { GroupLog } from './group-log.ts';
import { type GroupRecord, readGroupRecord } from './group-records.ts';
import { ForeignGroup, type Group, type GroupTable } from './group-table.ts';
import { StreamsGroup } from './streams-group.ts';
import type { StreamsHost } from './streams-types.ts';

/** Same texts come again and again; one copy of each is enough. */
class Texts {
  readonly #known = new Map<string, string>();

  one(text: string): string {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    this.#known.set(text, text);
    return text;
  }
}

function restoreClassic(group: Group, value: GroupMetadataValue, host: ClassicHost): void {
  const classic = group.classic ?? new ClassicGroup(group.groupId, host);
  group.protocol = classic;
  const { protocol } = value;
  const members = value.members.map((facts) => {
    const member = new ClassicMember({
      memberId: facts.memberId,
      groupInstanceId: facts.groupInstanceId,
      clientId: facts.clientId,
      clientHost: facts.clientHost,
      rebalanceTimeoutMs: facts.rebalanceTimeout >= 0 ? facts.rebalanceTimeout : facts.sessionTimeout,
      sessionTimeoutMs: facts.sessionTimeout,
      protocols: protocol === null ? [] : [{ name: protocol, metadata: Buffer.from(facts.subscription) }],
    });
    member.assignment = Buffer.from(facts.assignment);
    return member;
  });
  classic.restore(
    {
      protocolType: value.protocolType === '' ? null : value.protocolType,
      generationId: value.generation,
      protocolName: protocol,
      leaderId: value.leader,
      stateTimestamp: value.currentStateTimestamp,
    },
    members,
  );
}

export interface GroupHosts {
  readonly classic: ClassicHost;
  readonly consumer: ConsumerHost;
  readonly streams: StreamsHost;
}

function replay(record: GroupRecord, table: GroupTable, texts: Texts, hosts: GroupHosts): void {
  switch (record.kind) {
    case 'offset': {
      const { groupId, partition, value } = record;
      if (value === null) table.get(groupId)?.offsets.delete(record.topic, partition);
      else {
        const committed = {
          ...value,
          metadata: texts.one(value.metadata),
          topicId: texts.one(value.topicId),
        };
        table.getOrCreate(groupId).offsets.set(texts.one(record.topic), partition, committed);
      }
      return;
    }
    case 'classic': {
      const { groupId, value } = record;
      if (value !== null) restoreClassic(table.getOrCreate(groupId), value, hosts.classic);
      else {
        const group = table.get(groupId);
        if (group?.classic !== undefined) group.protocol = undefined;
      }
      return;
    }
    case 'consumer':
      replayConsumer(record, table, hosts.consumer);
      return;
    case 'streams':
      replayStreams(record, table, hosts.streams);
      return;
    case 'foreign':
      replayForeign(record, table);
      return;
    default:
  }
}

function replayConsumer(
  { groupId, change }: GroupRecord & { kind: 'consumer' },
  table: GroupTable,
  host: ConsumerHost,
): void {
  const known = table.get(groupId);
  if (change.value === null) {
    if (known?.consumer === undefined) return;
    if (change.type === 'group') known.protocol = undefined;
    else known.consumer.replay(change);
    return;
  }
  const group = known ?? table.getOrCreate(groupId);
  const consumer = group.consumer ?? new ConsumerGroup(groupId, host);
  group.protocol = consumer;
  consumer.replay(change);
}

function replayStreams(
  { groupId, change }: GroupRecord & { kind: 'streams' },
  table: GroupTable,
  host: StreamsHost,
): void {
  if (change.value === null && table.get(groupId)?.streams === undefined) return;
  const group = table.getOrCreate(groupId);
  const streams = group.streams ?? new StreamsGroup(groupId, host);
  if (change.type === 'group' && change.value === null) group.protocol = undefined;
  else {
    group.protocol = streams;
    streams.replay(change);
  }
}

function replayForeign(record: GroupRecord & { kind: 'foreign' }, table: GroupTable): void {
  const { groupId, type, ofMember, removed } = record;
  const id = Buffer.from(record.key).toString('latin1');
  if (removed) {
    const group = table.get(groupId);
    const foreign = group?.foreign;
    foreign?.keys.delete(id);
    if (group !== undefined && foreign?.keys.size === 0) group.protocol = undefined;
    return;
  }
  const group = table.getOrCreate(groupId);
  let foreign = group.foreign;
  if (foreign?.type !== type) {
    foreign = new ForeignGroup(type);
    group.protocol = foreign;
  }
  foreign.keys.set(id, { key: Buffer.from(record.key), ofMember });
}

/** Fills the table; the groups' sessions do not run yet. Records that can't be read are logged and left out. */
export async function loadGroups(
  topic: GroupLog,
  table: GroupTable,
  hosts: GroupHosts,
  log: Logger,
): Promise<void> {
  const texts = new Texts();
  const unknown = new Set<number>();
  let broken = 0;
  const read = (key: Uint8Array, value: Uint8Array | null, then: (record: GroupRecord) => void) => {
    try {
      const record = readGroupRecord(key, value);
      if (record.kind === 'unknown') unknown.add(record.type);
      else then(record);
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code !== 'MALFORMED') throw error;
      broken++;
    }
  };
  await topic.load({
    record: (key, value) => read(key, value, (record) => replay(record, table, texts, hosts)),
    pending: (producerId, key, value) =>
      read(key, value, (record) => {
        if (record.kind !== 'offset' || record.value === null) return;
        const { groupId, topic, partition, value: committed } = record;
        table.pending.add(producerId, table.getOrCreate(groupId).groupId, { topic, partition, committed });
      }),
  });
  if (unknown.size > 0) {
    log.warn(
      { types: [...unknown] },
      'records of groups that this version does not know were left alone: written by a newer Kafka than 4.4?',
    );
  }
  if (broken > 0) log.error({ records: broken }, 'records of groups that do not parse were left out');
  for (const group of [...table.all()]) {
    if (group.protocol === undefined && group.offsets.isEmpty && !table.pending.has(group.groupId))
      table.remove(group.groupId);
  }
}
