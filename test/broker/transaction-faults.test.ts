/** A transaction whose end is decided and one of whose partitions cannot be written: the others have their markers at once, and it
 * is complete when that one can be written again. */
import { constants } from 'node:os';
import { afterEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { type Producer, TransactionScript } from '../support/transaction-script.ts';

const { EIO, ENOSPC } = constants.errno;
const PLACES = ['a', 'b'];

describe.each(ENGINES)('engine=$name', ({ name, setFault, clearFaults }) => {
  let broker: Broker;
  let client: Client;
  let script: TransactionScript;
  let dataDir: string;

  async function start(): Promise<void> {
    broker = await createBroker({
      dataDir,
      host: '127.0.0.1',
      port: 0,
      engine: name,
      config: { 'transaction.state.log.num.partitions': '1' },
    });
    client = await Client.connect(broker.bootstrapServers);
    script = new TransactionScript(client.connection);
  }

  async function stop(): Promise<void> {
    await client.close();
    await broker.close();
  }

  afterEach(async () => {
    clearFaults();
    await stop();
  });

  /** The last stable offset of each topic; asked until they are `until`, where that is given. */
  async function stable(until: readonly number[] = []): Promise<string[]> {
    for (const [i, topic] of PLACES.entries()) await script.read(topic, 0, true, until[i]);
    return script.lines.slice(-PLACES.length).map((line) => /stable (-?\d+)/.exec(line)![1]!);
  }

  /** Commits a transaction of two partitions, of which the first marker meets an error of the disk. */
  async function commit(errno: number): Promise<Producer> {
    dataDir = scratch();
    await start();
    for (const topic of PLACES) await script.topic(topic);
    const p = await script.init('tx');
    for (const topic of PLACES) await script.produce('tx', p, [topic, 0], 0, ['x']);
    // The first write is the decision.
    setFault('pwritev', 1, 1, errno, 0);
    const next = await script.end('tx', p, true);
    expect(script.lines.at(-1)).toMatch(/-> NONE P0\/1$/);
    // What is offline answers no reader.
    expect((await stable()).sort()).toEqual([errno === EIO ? '-1' : '0', '2']);
    await script.describe('tx');
    expect(script.lines.at(-1)).toContain('PrepareCommit');
    return next;
  }

  it('completes by itself when a full disk has space again', async () => {
    await commit(ENOSPC);
    // Markers are written while records of clients are still refused.
    expect(await stable([2, 2])).toEqual(['2', '2']);
    await script.describe('tx', 'CompleteCommit');
    expect(script.lines.at(-1)).toContain('CompleteCommit P0/1');
  });

  it('completes with the next start when a partition went offline', async () => {
    const next = await commit(EIO);
    await script.produce('tx', next, ['a', 0], 0, ['too early'], { impatient: true });
    expect(script.lines.at(-1)).toContain('CONCURRENT_TRANSACTIONS');
    await stop();
    await start();
    await script.describe('tx', 'CompleteCommit');
    // The one that had its marker has it twice, as with Apache Kafka.
    expect(await stable([2, 3])).toEqual(['2', '3']);
    await script.describe('tx', 'CompleteCommit');
    await script.produce('tx', next, ['a', 0], 0, ['y']);
    await script.end('tx', next, true);
    await script.read('a', 0, true, 4);
    expect(script.lines.at(-1)).toContain('stable 4');
  });
});
