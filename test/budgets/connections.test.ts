/** What connections cost: those that come and go, those that stop reading, and those for which there is no descriptor. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import { writeRequestHeader } from '../../src/protocol/generated/headers.ts';
import { Writer } from '../../src/protocol/writer.ts';
import type { BroadsheetError } from '../../src/runtime/errors.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { Probed } from '../support/probed.ts';
import { scaled } from '../support/scale.ts';
import { until } from '../support/sockets.ts';

const MIB = 1 << 20;
/** The last version that names topics by name. */
const FETCH_VERSION = 12;

let dir: string;
let probed: Probed;
const sockets: Socket[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-budgets-'));
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await probed.kill();
  rmSync(dir, { recursive: true, force: true });
}, 600_000);

async function dial(address: string): Promise<Socket> {
  const [host, port] = address.split(':');
  const socket = connect(Number(port), host);
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

function request(key: number, version: number, body: (w: Writer) => void): Uint8Array {
  const w = new Writer(1024);
  w.int32(0);
  const header = { requestApiKey: key, requestApiVersion: version, correlationId: 1, clientId: 'budget' };
  writeRequestHeader(w, API_FACTS[key]!.requestHeaderVersion(version), header);
  body(w);
  w.patchInt32(0, w.position - 4);
  return w.bytes().slice();
}

const apiVersions = request(ApiKey.ApiVersions, 0, () => {});

/** Connects, asks, is answered and goes; every fourth one goes without a word. */
async function visit(address: string, n: number): Promise<void> {
  const socket = await dial(address);
  if (n % 4 !== 0) {
    socket.write(apiVersions);
    await once(socket, 'data');
  }
  socket.destroy();
}

async function visits(address: string, count: number): Promise<void> {
  for (let at = 0; at < count; at += 50)
    await Promise.all(Array.from({ length: 50 }, (_, i) => visit(address, i)));
}

describe.each(SOME_COMBINATIONS)('$title', ({ engine, transport }) => {
  const count = scaled(2_000, 100_000);

  it(`${count} connects and disconnects leave descriptors and memory where they were`, async () => {
    probed = await Probed.start({ dir, engine, transport, node: ['--expose-gc'] });
    await visits(probed.address, scaled(1_000, 10_000));
    const before = await probed.probe('gc');
    await visits(probed.address, count);
    let after = await probed.probe('gc');
    // The last ones may still be closing.
    while (after.descriptors > before.descriptors) after = await probed.probe('gc');
    const grown = (what: 'heapUsed' | 'rss') => after[what] - before[what];
    process.stdout.write(
      `${count} connections, ${engine}/${transport}: ${grown('heapUsed') / count} bytes of heap each, ` +
        `resident ${grown('rss') / MIB} MiB\n`,
    );
    expect(grown('heapUsed') / count).toBeLessThan(scaled(400, 20));
    expect(grown('rss')).toBeLessThan(scaled(24, 40) * MIB);
  });

  it('a reader that stops reading costs less than 1 MB', async () => {
    probed = await Probed.start({ dir, engine, transport, node: ['--expose-gc'] });
    const client = await Client.connect(probed.address);
    await client.createTopics([{ name: 't', partitions: 1 }]);
    const value = Buffer.alloc(900_000, 7);
    for (let n = 0; n < 40; n++) await client.produce('t', 0, [{ timestamp: Date.now(), value }]);
    const fetch = request(ApiKey.Fetch, FETCH_VERSION, (w) =>
      writeFetchRequest(w, FETCH_VERSION, {
        maxWaitMs: 500,
        minBytes: 1,
        maxBytes: 50 * MIB,
        topics: [{ topic: 't', partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 30 * MIB }] }],
      }),
    );
    const read = async (readers: number) => {
      for (let n = 0; n < readers; n++) {
        const socket = await dial(probed.address);
        socket.pause();
        sockets.push(socket);
        // More than one, so that a broker that goes on regardless is seen.
        for (let i = 0; i < 4; i++) socket.write(fetch);
      }
      // Others are served meanwhile.
      for (let n = 0; n < 20; n++) expect((await client.metadata([])).brokers).toHaveLength(1);
      let last = -1;
      for (let same = 0; same < 3; ) {
        const { rss } = await probed.probe('gc');
        same = Math.abs(rss - last) < MIB ? same + 1 : 0;
        last = rss;
        await client.metadata([]);
      }
      return last;
    };
    const readers = scaled(30, 200);
    const before = await read(5);
    let after = await read(readers);
    // What was read on the way here may be given back late.
    for (let tries = 0; tries < 20 && (after - before) / readers >= 1_000_000; tries++) after = await read(0);
    process.stdout.write(
      `${readers} readers that stopped, ${engine}/${transport}: ${(after - before) / readers} bytes each\n`,
    );
    expect((after - before) / readers).toBeLessThan(1_000_000);
    await client.close();
  });
});

/** Node turns connections away until it has closed others. */
async function untilServed(address: string): Promise<Client> {
  for (;;) {
    try {
      return await Client.connect(address);
    } catch (error) {
      if ((error as BroadsheetError).code !== 'IO') throw error;
    }
  }
}

describe.each(SOME_COMBINATIONS)('without descriptors, $title', ({ engine, transport }) => {
  it('the error names the limit and its setting; what is there goes on, and others come when there is room', async () => {
    probed = await Probed.start({ dir, engine, transport, shell: 'ulimit -n 200' });
    const client = await Client.connect(probed.address);
    await client.createTopics([{ name: 't', partitions: 4 }]);
    for (let n = 0; n < 240; n++) {
      const [host, port] = probed.address.split(':');
      const socket = connect(Number(port), host);
      socket.on('error', () => {});
      sockets.push(socket);
    }
    await until(() => probed.log.includes('connections are not accepted'));
    expect(probed.log).toMatch(/no descriptor is left for another connection.*RLIMIT_NOFILE.*ulimit -n/);
    // Its files are open, or room is made for them.
    for (let partition = 0; partition < 4; partition++) {
      await client.produce('t', partition, [{ timestamp: Date.now(), value: 'v' }]);
      expect((await client.fetch('t', partition, 0)).records).toHaveLength(1);
    }
    for (const socket of sockets.splice(0)) socket.destroy();
    const another = await untilServed(probed.address);
    await another.createTopics([{ name: 'u', partitions: 4 }]);
    await another.close();
    await client.close();
    await probed.stop();
  });
});
