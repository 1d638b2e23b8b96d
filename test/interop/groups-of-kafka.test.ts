/** The groups and committed offsets in directories that Apache Kafka has written, stopped and killed. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { api } from '../../src/client/apis.ts';
import { Connection } from '../../src/client/connection.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readDeleteGroupsResponse,
  writeDeleteGroupsRequest,
} from '../../src/protocol/generated/DeleteGroups.ts';
import { readJoinGroupResponse, writeJoinGroupRequest } from '../../src/protocol/generated/JoinGroup.ts';
import { readListGroupsResponse, writeListGroupsRequest } from '../../src/protocol/generated/ListGroups.ts';
import {
  readOffsetFetchResponse,
  writeOffsetFetchRequest,
} from '../../src/protocol/generated/OffsetFetch.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { outputs } from '../support/command.ts';
import { PROTOCOL } from '../support/kafka-peer.ts';

interface Committed {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly leaderEpoch: number;
  readonly metadata: string;
}

interface Expected {
  readonly committedOffsets: readonly Committed[];
  readonly groups: readonly {
    readonly group: string;
    readonly type: string;
    readonly protocolType: string;
  }[];
}

const JOIN = api(ApiKey.JoinGroup, writeJoinGroupRequest, readJoinGroupResponse);
const LIST = api(ApiKey.ListGroups, writeListGroupsRequest, readListGroupsResponse);
const FETCH = api(ApiKey.OffsetFetch, writeOffsetFetchRequest, readOffsetFetchResponse);
const DELETE = api(ApiKey.DeleteGroups, writeDeleteGroupsRequest, readDeleteGroupsResponse);

let dir: string;
let broker: BrokerProcess | undefined;
afterEach(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

async function connect(): Promise<Connection> {
  const [host, port] = broker!.address.split(':');
  const connection = await Connection.connect({ host: host!, port: Number(port) });
  await connection.negotiate();
  return connection;
}

async function groupsOf(connection: Connection) {
  const { groups } = await connection.request(LIST, {});
  const all = groups.map(({ groupId, groupType, protocolType }) => ({
    group: groupId,
    type: groupType,
    protocolType,
  }));
  return all.sort((a, b) => (a.group < b.group ? -1 : 1));
}

async function offsetsOf(connection: Connection, groupIds: readonly string[]): Promise<Committed[]> {
  const { groups } = await connection.request(
    FETCH,
    { groups: groupIds.map((groupId) => ({ groupId, topics: null })), requireStable: true },
    { version: 9 },
  );
  const all = groups.flatMap(({ groupId, topics }) =>
    topics.flatMap(({ name, partitions }) =>
      partitions.map((p) => ({
        group: groupId,
        topic: name,
        partition: p.partitionIndex,
        offset: p.committedOffset,
        leaderEpoch: p.committedLeaderEpoch,
        metadata: p.metadata ?? '',
      })),
    ),
  );
  const key = ({ group, topic, partition }: Committed) =>
    `${group} ${topic} ${String(partition).padStart(5, '0')}`;
  return all.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

it.each(['clean', 'killed'] as const)('are listed and read as Kafka says: %s', async (which) => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-groups-of-kafka-'));
  await outputs('tar', ['xzf', `${PROTOCOL}/datadir/kafka-4.4-${which}.tar.gz`, '-C', dir]);
  const text = readFileSync(`${PROTOCOL}/datadir/expected.json`, 'utf8');
  const expected = (JSON.parse(text) as Record<typeof which, Expected>)[which];
  const groups = expected.groups.map((group) => ({ ...group, type: group.type.toLowerCase() }));
  broker = await BrokerProcess.start(join(dir, 'data'));
  let connection = await connect();
  const ids = groups.map(({ group }) => group);
  expect(await groupsOf(connection)).toEqual(groups);
  expect(await offsetsOf(connection, ids)).toEqual(expected.committedOffsets);

  // A client of the classic protocol joins members of the consumer protocol, who have a session to come back in.
  const subscription = Buffer.from([0, 0, 0, 0, 0, 1, 0, 5, ...Buffer.from('plain'), 255, 255, 255, 255]);
  const joined = await connection.request(
    JOIN,
    {
      groupId: 'group-alive-consumer',
      sessionTimeoutMs: 10_000,
      rebalanceTimeoutMs: 10_000,
      memberId: '',
      protocolType: 'consumer',
      protocols: [{ name: 'range', metadata: subscription }],
    },
    { version: 3 },
  );
  expect(joined).toMatchObject({ errorCode: 0, leader: '', protocolName: 'range' });
  await connection.request(DELETE, { groupsNames: ['group-by-admin', 'group-consumer'] });
  connection.close();
  await broker.kill();
  broker = await BrokerProcess.start(join(dir, 'data'));
  connection = await connect();
  const gone = new Set(['group-by-admin', 'group-consumer']);
  const left = groups.filter(({ group }) => !gone.has(group));
  expect(await groupsOf(connection)).toEqual(left);
  expect(await offsetsOf(connection, ids)).toEqual(
    expected.committedOffsets.filter(({ group }) => !gone.has(group)),
  );
  connection.close();
});
