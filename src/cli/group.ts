/** `broadsheet group`: list, describe, delete, delete-offsets, reset-offsets. */
import { type Command, InvalidArgumentError } from 'commander';
import { BrokerRefusal, type Client, EARLIEST, LATEST } from '../client/client.ts';
import {
  type CommittedOffset,
  commitOffsets,
  committedOffsets,
  deleteGroup,
  deleteOffsets,
  describeGroup,
  type GroupInfo,
  listGroups,
} from '../client/groups.ts';
import { listOffsets, type PartitionOf, partitionName } from '../client/offsets.ts';
import { errorName, KafkaError } from '../protocol/errors.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { eachTopicPartitions, type Position, position, type TopicPartitions } from './arguments.ts';
import { counted, note, print, printJson, table } from './output.ts';
import { offsetsAt, type Place, resolvePartitions, resolvePositions } from './positions.ts';
import { overTheWire, type SessionOptions, withClient } from './session.ts';

interface ListOptions extends SessionOptions {
  readonly state?: readonly string[];
  readonly type?: readonly string[];
}

async function list(client: Client, options: ListOptions): Promise<void> {
  const wanted = (filter: readonly string[] | undefined, value: string | null) =>
    filter === undefined || filter.some((each) => each.toLowerCase() === (value ?? '').toLowerCase());
  const groups = (await listGroups(client)).filter(
    ({ state, type }) => wanted(options.state, state) && wanted(options.type, type),
  );
  if (options.json) return printJson({ groups });
  if (groups.length === 0) return note('there are no such groups');
  const rows = groups.map(({ group, type, state, protocolType }) => [group, type, state, protocolType]);
  await print(table(['GROUP', 'TYPE', 'STATE', 'PROTOCOL'], rows));
}

interface OffsetRow extends PartitionOf {
  readonly committed: number | null;
  readonly end: number | null;
  readonly lag: number | null;
  readonly metadata: string | null;
  readonly memberId: string | null;
}

/** What the group has committed or is assigned, with where the partitions end. */
async function offsetRows(
  client: Client,
  info: GroupInfo,
  committed: readonly CommittedOffset[],
): Promise<OffsetRow[]> {
  const rows = new Map<string, PartitionOf & { offset?: CommittedOffset; memberId?: string }>();
  for (const offset of committed) {
    rows.set(partitionName(offset), { topic: offset.topic, partition: offset.partition, offset });
  }
  for (const { memberId, assignment } of info.members) {
    for (const { topic, partitions } of assignment) {
      for (const partition of partitions) {
        const name = partitionName({ topic, partition });
        rows.set(name, { ...(rows.get(name) ?? { topic, partition }), memberId });
      }
    }
  }
  const all = [...rows.values()].sort((a, b) =>
    a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1,
  );
  const ends = await endOffsets(client, all);
  return all.map(({ topic, partition, offset, memberId }) => {
    const end = ends.get(partitionName({ topic, partition })) ?? null;
    const at = offset?.offset ?? null;
    return {
      topic,
      partition,
      committed: at,
      end,
      lag: at === null || end === null ? null : Math.max(0, end - at),
      metadata: offset === undefined || offset.metadata === '' ? null : offset.metadata,
      memberId: memberId ?? null,
    };
  });
}

/** Of those that still exist and are led. */
async function endOffsets(client: Client, partitions: readonly PartitionOf[]): Promise<Map<string, number>> {
  if (partitions.length === 0) return new Map();
  const { topics } = await client.metadata([...new Set(partitions.map(({ topic }) => topic))]);
  const led = new Set(
    topics.flatMap(({ name, partitions: each }) =>
      each
        .filter(({ leaderId }) => leaderId >= 0)
        .map(({ partitionIndex }) => partitionName({ topic: name!, partition: partitionIndex })),
    ),
  );
  const asked = partitions.filter((each) => led.has(partitionName(each)));
  const answers = await listOffsets(
    client,
    asked.map((each) => ({ ...each, timestamp: LATEST })),
  );
  return new Map(
    asked.flatMap((each, index) => {
      const { errorCode, offset } = answers[index]!;
      return errorCode === 0 ? [[partitionName(each), offset]] : [];
    }),
  );
}

async function describe(client: Client, names: readonly string[], options: SessionOptions): Promise<void> {
  const groups = names.length > 0 ? names : (await describable(client)).map(({ group }) => group);
  const described = [];
  for (const name of groups) {
    const info = await describeGroup(client, name);
    const offsets = await offsetRows(client, info, await committedOffsets(client, name));
    // Where nothing is committed the lag depends on where a member would begin.
    const known = offsets.every(({ lag }) => lag !== null);
    const totalLag = known ? offsets.reduce((sum, { lag }) => sum + lag!, 0) : null;
    described.push({ ...info, offsets, totalLag });
  }
  if (options.json) {
    const documents = described.map(({ coordinator: { nodeId, host, port }, ...group }) => ({
      ...group,
      coordinator: { id: nodeId, host, port },
    }));
    return printJson({ groups: documents });
  }
  if (described.length === 0) return note('there are no groups yet');
  for (const [index, group] of described.entries()) {
    if (index > 0) await print('\n');
    const { coordinator, members, offsets } = group;
    const facts = [
      `${group.group}  ${group.type}  ${group.state}`,
      ...(group.assignor === '' ? [] : [`assignor ${group.assignor}`]),
      ...(group.epoch === null ? [] : [`epoch ${group.epoch}`]),
      `coordinator ${coordinator.nodeId}`,
      `lag ${group.totalLag ?? 'unknown'}`,
    ];
    await print(`${facts.join('  ')}\n`);
    if (members.length > 0) {
      const rows = members.map(({ memberId, instanceId, clientId, host, assignment }) => [
        memberId,
        instanceId,
        clientId,
        host,
        assignment.map(({ topic, partitions }) => `${topic}:${ranges(partitions)}`).join(' ') || null,
      ]);
      await print(table(['MEMBER', 'INSTANCE', 'CLIENT', 'HOST', 'PARTITIONS'], rows));
    }
    if (offsets.length > 0) {
      const rows = offsets.map(({ topic, partition, committed, end, lag, memberId }) => [
        topic,
        partition,
        committed,
        end,
        lag,
        memberId,
      ]);
      await print(table(['TOPIC', 'PARTITION', 'COMMITTED', 'END', 'LAG', 'MEMBER'], rows));
    }
  }
}

/** Groups whose members and offsets this command knows. */
async function describable(client: Client) {
  const known = new Set(['classic', 'consumer', null]);
  return (await listGroups(client)).filter(({ type }) => known.has(type));
}

/** `0-3,7`. */
function ranges(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let first = 0, last = 0; first < sorted.length; first = last + 1) {
    last = first;
    while (sorted[last + 1] === sorted[last]! + 1) last++;
    parts.push(last === first ? `${sorted[first]}` : `${sorted[first]}-${sorted[last]}`);
  }
  return parts.join(',');
}

async function remove(client: Client, names: readonly string[], options: SessionOptions): Promise<void> {
  const results: { group: string; error: string | null }[] = [];
  for (const group of names) {
    try {
      await deleteGroup(client, group);
      results.push({ group, error: null });
    } catch (error) {
      if (!(error instanceof BrokerRefusal) || names.length === 1) throw error;
      results.push({ group, error: error.kafkaError });
    }
  }
  if (options.json) await printJson({ groups: results });
  else for (const { group, error } of results) await print(`group ${group} ${error ?? 'deleted'}\n`);
  const failed = results.filter(({ error }) => error !== null).length;
  if (failed > 0)
    throw new BroadsheetError('BROKER_REFUSED', `${failed} of ${results.length} groups were not deleted`);
}

async function removeOffsets(
  client: Client,
  group: string,
  given: readonly TopicPartitions[],
  options: SessionOptions,
): Promise<void> {
  const committed = await committedOffsets(client, group);
  // Not by the topic's partitions: it may be gone, and only its offsets left.
  const partitions = given.flatMap(({ topic, partitions: chosen }) =>
    chosen === undefined
      ? committed.filter((each) => each.topic === topic).map(({ partition }) => ({ topic, partition }))
      : chosen.map((partition) => ({ topic, partition })),
  );
  if (partitions.length === 0) {
    throw new BroadsheetError('NOT_FOUND', `group ${group} has committed nothing there`);
  }
  const results = (await deleteOffsets(client, group, partitions)).map(({ topic, partition, errorCode }) => ({
    topic,
    partition,
    error: errorCode === 0 ? null : errorName(errorCode),
  }));
  if (options.json) await printJson({ group, partitions: results });
  else {
    const rows = results.map(({ topic, partition, error }) => [topic, partition, error ?? 'deleted']);
    await print(table(['TOPIC', 'PARTITION', 'RESULT'], rows));
  }
  const failed = results.filter(({ error }) => error !== null).length;
  if (failed > 0) {
    const subscribed = results.some(({ error }) => error === errorName(KafkaError.GROUP_SUBSCRIBED_TO_TOPIC));
    const advice = subscribed
      ? ': its members are subscribed to that topic; stop them first, `broadsheet group describe` shows them'
      : '';
    throw new BroadsheetError(
      'BROKER_REFUSED',
      `${failed} of ${results.length} offsets were not deleted${advice}`,
    );
  }
}

interface ResetOptions extends SessionOptions {
  readonly to?: Position;
  readonly shift?: number;
  readonly allTopics?: boolean;
  readonly dryRun?: boolean;
}

async function reset(
  client: Client,
  group: string,
  given: readonly TopicPartitions[],
  options: ResetOptions,
): Promise<void> {
  if ((options.to === undefined) === (options.shift === undefined)) {
    throw new BroadsheetError('INVALID_ARGUMENT', 'say where to: either --to <position> or --shift <n>');
  }
  if ((given.length === 0) === (options.allTopics !== true)) {
    throw new BroadsheetError(
      'INVALID_ARGUMENT',
      'name topics, or give --all-topics for all that the group has offsets in',
    );
  }
  await refuseMembers(client, group);
  const committed = new Map(
    (await committedOffsets(client, group)).map((each) => [partitionName(each), each]),
  );
  const partitions = options.allTopics
    ? [...committed.values()].map(({ topic, partition }) => ({ topic, partition }))
    : await resolvePartitions(client, given);
  if (partitions.length === 0)
    throw new BroadsheetError('NOT_FOUND', `group ${group} has committed nothing yet`);
  const targets =
    options.to === undefined
      ? shifted(partitions, committed, options.shift!)
      : await resolvePositions(client, partitions, options.to);
  const places = await within(client, targets);
  if (!options.dryRun) await commitOffsets(client, group, places);
  const results = places.map(({ topic, partition, offset }) => ({
    topic,
    partition,
    before: committed.get(partitionName({ topic, partition }))?.offset ?? null,
    after: offset,
  }));
  if (options.json) return printJson({ group, dryRun: options.dryRun ?? false, partitions: results });
  const rows = results.map(({ topic, partition, before, after }) => [topic, partition, before, after]);
  await print(table(['TOPIC', 'PARTITION', 'BEFORE', 'AFTER'], rows));
  if (options.dryRun) note('nothing was changed: this was a dry run');
}

/** Throws NON_EMPTY_GROUP, with who is there: members would commit over what is set. */
async function refuseMembers(client: Client, group: string): Promise<void> {
  let info: GroupInfo;
  try {
    info = await describeGroup(client, group);
  } catch (error) {
    // Offsets may be set before the first member comes.
    if (error instanceof BrokerRefusal && error.kafkaCode === KafkaError.GROUP_ID_NOT_FOUND) return;
    throw error;
  }
  if (info.state === 'Empty' || info.state === 'Dead') return;
  const clients = [...new Set(info.members.map(({ clientId, host }) => `${clientId} at ${host}`))];
  const text = `it has ${counted(info.members.length, 'member')} (${clients.slice(0, 3).join(', ')}${clients.length > 3 ? ' ...' : ''})`;
  throw new BrokerRefusal(KafkaError.NON_EMPTY_GROUP, `offsets of group ${group} were not reset`, text);
}

function shifted(
  partitions: readonly PartitionOf[],
  committed: ReadonlyMap<string, CommittedOffset>,
  by: number,
): Place[] {
  return partitions.map(({ topic, partition }) => {
    const at = committed.get(partitionName({ topic, partition }))?.offset;
    if (at === undefined) {
      throw new BroadsheetError(
        'NOT_FOUND',
        `the group has committed nothing in ${topic}-${partition}: there is nothing to shift`,
      );
    }
    return { topic, partition, offset: at + by };
  });
}

/** What lies outside of its partition is moved to the nearest end, with a remark. */
async function within(client: Client, places: readonly Place[]): Promise<Place[]> {
  const starts = await offsetsAt(client, places, EARLIEST);
  const ends = await offsetsAt(client, places, LATEST);
  return places.map((place, index) => {
    const offset = Math.min(Math.max(place.offset, starts[index]!), ends[index]!);
    if (offset !== place.offset) {
      note(
        `${partitionName(place)} goes from ${starts[index]} to ${ends[index]}: ${offset} instead of ${place.offset}`,
      );
    }
    return { ...place, offset };
  });
}

/** Of all types of groups; and their types. */
const STATES = [
  'Stable',
  'Empty',
  'PreparingRebalance',
  'CompletingRebalance',
  'Assigning',
  'Reconciling',
  'NotReady',
  'Dead',
];
const TYPES = ['classic', 'consumer', 'share', 'streams'];

/** A list with commas of some of these; case means nothing. */
function someOf(values: readonly string[]): (text: string) => string[] {
  return (text) => {
    const words = text.split(',').filter((word) => word !== '');
    for (const word of words) {
      if (!values.some((value) => value.toLowerCase() === word.toLowerCase()))
        throw new InvalidArgumentError(`${JSON.stringify(word)} is none of ${values.join(', ')}.`);
    }
    if (words.length === 0) throw new InvalidArgumentError(`some of ${values.join(', ')}.`);
    return words;
  };
}

function signed(text: string): number {
  const value = Number(text);
  if (!/^[+-]?\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('a whole number, as in 100 or -100.');
  }
  return value;
}

export function define(command: Command): void {
  const add = (name: string, description: string) =>
    overTheWire(command.command(name).description(description));
  const topics = 'as in orders, orders:0, orders:0,2-4';
  add('list', 'list groups')
    .option('--state <list>', 'only in these states, as in Stable,Empty', someOf(STATES))
    .option('--type <list>', 'only of these types, as in classic,consumer', someOf(TYPES))
    .action((options: ListOptions) => withClient(options, (client) => list(client, options)));
  add('describe', 'show members, committed offsets and lag')
    .argument('[group...]', 'default: all')
    .action((names: string[], options: SessionOptions) =>
      withClient(options, (client) => describe(client, names, options)),
    );
  add('delete', 'delete groups without members, with their offsets')
    .argument('<group...>')
    .action((names: string[], options: SessionOptions) =>
      withClient(options, (client) => remove(client, names, options)),
    );
  add('delete-offsets', 'forget committed offsets')
    .argument('<group>')
    .argument('<topic[:partitions]...>', topics, eachTopicPartitions)
    .action((group: string, given: TopicPartitions[], options: SessionOptions) =>
      withClient(options, (client) => removeOffsets(client, group, given, options)),
    );
  add('reset-offsets', 'set committed offsets of a group without members')
    .argument('<group>', 'is made when it is not there')
    .argument('[topic[:partitions]...]', topics, eachTopicPartitions)
    .option('--all-topics', 'all that the group has offsets in')
    .option(
      '--to <position>',
      'earliest, latest, an offset, -n for the last n, or a time (2026-01-31T12:00:00Z, @ms, 10m)',
      (text) => position(text),
    )
    .option('--shift <n>', 'so many on, or back', signed)
    .option('--dry-run', 'only show what would be')
    .addHelpText(
      'after',
      `
For example:
  broadsheet group reset-offsets billing orders --to earliest --dry-run
  broadsheet group reset-offsets billing orders:0 --to 1200
  broadsheet group reset-offsets billing --all-topics --to 2h
  broadsheet group reset-offsets billing --all-topics --shift -100`,
    )
    .action((group: string, given: TopicPartitions[] | undefined, options: ResetOptions) =>
      withClient(options, (client) => reset(client, group, given ?? [], options)),
    );
}
