/** The same requests of cluster administration to Apache Kafka and to this broker: the same answers, but for what is
 * listed here. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { decodeMetadataRecord } from '../../src/metadata/records.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { normalise } from '../support/cluster-answers.ts';
import { CALLS, CASES } from '../support/cluster-cases.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cluster-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), kafkaPort());
let broker: BrokerProcess;

beforeAll(async () => {
  await kafka.start();
  broker = await BrokerProcess.start(join(dir, 'data'));
});
afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

function connect(address: string): Promise<Connection> {
  const [host, port] = address.split(':');
  return Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 });
}

const KINDS: ReadonlySet<string> = new Set([
  'ClientQuota',
  'UserScramCredential',
  'RemoveUserScramCredential',
  'UnregisterBroker',
  'UnregisterController',
]);

/** What the requests wrote, in hex; those of one batch come in any order. */
function records(dataDir: string): string[] {
  const found: string[] = [];
  for (const batch of readBatches(readFileSync(`${dataDir}/__cluster_metadata-0/00000000000000000000.log`))) {
    if (!(batch instanceof RecordBatch) || batch.isControl) continue;
    for (const { value } of batch.records()) {
      const bytes = value ?? new Uint8Array();
      const { type } = decodeMetadataRecord(bytes);
      if (KINDS.has(type)) found.push(`${type} ${Buffer.from(bytes).toString('hex')}`);
    }
  }
  return found.sort();
}

/** Cases with other answers on purpose, and the ones of this broker: docs/DIFFERENCES.md says why. */
const ON_PURPOSE: ReadonlyMap<string, object> = new Map([
  [
    'the quorum (v2)',
    { nodes: [{ nodeId: 1, listeners: [{ name: 'PLAINTEXT', host: 'a host', port: 'a port' }] }] },
  ],
  [
    'an empty password (v0)',
    { results: [{ user: 'password', errorCode: 'UNACCEPTABLE_CREDENTIAL', errorMessage: 'a text' }] },
  ],
]);

describe('requests of cluster administration', () => {
  it.each(Object.keys(CASES) as (keyof typeof CASES)[])('%s: both answer the same', async (group) => {
    const [theirs, own] = await Promise.all([connect(kafka.address), connect(broker.address)]);
    for (const { name, reads, run } of CASES[group]) {
      const ours = normalise(await run(own));
      const same = async () => {
        const ofKafka = normalise(await run(theirs)) as object;
        return { ...ofKafka, ...ON_PURPOSE.get(name) };
      };
      let expected = await same();
      for (let turns = 0; reads === true && turns < 50 && !isDeepStrictEqual(ours, expected); turns++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        expected = await same();
      }
      expect(ours, name).toEqual(expected);
    }
    theirs.close();
    own.close();
  });

  it('leave the same records in the metadata log, byte for byte', () => {
    const ofKafka = records(kafka.dataDir);
    expect(ofKafka.length).toBeGreaterThan(30);
    expect(records(join(dir, 'data'))).toEqual(ofKafka);
  });

  it('refuse a second voter, and to unregister the only broker', async () => {
    const connection = await connect(broker.address);
    const added = await connection.request(CALLS.addRaftVoter, {
      clusterId: null,
      timeoutMs: 1000,
      voterId: 7,
      voterDirectoryId: 'QUFBQUFBQUFBQUFBQUFBQQ',
      listeners: [{ name: 'CONTROLLER', host: '127.0.0.1', port: 1 }],
    });
    expect(normalise(added)).toMatchObject({ errorCode: 'INVALID_REQUEST', errorMessage: 'a text' });
    const removed = await connection.request(CALLS.unregisterBroker, { brokerId: 1 });
    expect(normalise(removed)).toMatchObject({ errorCode: 'INVALID_REQUEST', errorMessage: 'a text' });
    connection.close();
  });
});
