import net from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { APIS } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { decodeFetched } from '../../src/client/fetched.ts';
import { writeApiVersionsResponse } from '../../src/protocol/generated/ApiVersions.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { readRequestHeader } from '../../src/protocol/generated/headers.ts';
import { readMetadataRequest, writeMetadataResponse } from '../../src/protocol/generated/Metadata.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { ControlType, endTransactionMarker } from '../../src/protocol/records/control.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { Writer } from '../../src/protocol/writer.ts';

interface Asked {
  readonly key: number;
  readonly version: number;
  readonly correlationId: number;
  readonly body: Reader;
}

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A peer that hands each request to `answer`, which writes what it likes. */
async function peer(answer: (asked: Asked, socket: net.Socket) => void): Promise<number> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let pending = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      while (pending.length >= 4 && pending.length >= 4 + pending.readInt32BE(0)) {
        const frame = pending.subarray(4, 4 + pending.readInt32BE(0));
        pending = pending.subarray(4 + frame.length);
        const body = new Reader(frame);
        const header = readRequestHeader(
          body,
          frame.readInt16BE(0) === ApiKey.ApiVersions && frame.readInt16BE(2) >= 3 ? 2 : 1,
        );
        answer(
          {
            key: header.requestApiKey,
            version: header.requestApiVersion,
            correlationId: header.correlationId,
            body,
          },
          socket,
        );
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as net.AddressInfo).port;
}

function response(correlationId: number, body: (w: Writer) => void): Buffer {
  const w = new Writer();
  w.int32(0);
  w.int32(correlationId);
  body(w);
  w.patchInt32(0, w.position - 4);
  return Buffer.from(w.bytes());
}

/** Metadata v1 that names the topic asked for as its cluster. */
const echo = ({ correlationId, body }: Asked): Buffer => {
  const name = readMetadataRequest(body, 1).topics![0]!.name;
  return response(correlationId, (w) =>
    writeMetadataResponse(w, 1, {
      brokers: [],
      controllerId: 1,
      topics: [{ errorCode: 3, name, isInternal: false, partitions: [] }],
    }),
  );
};

async function connect(port: number, timeoutMs = 20_000): Promise<Connection> {
  const connection = await Connection.connect({ host: '127.0.0.1', port, timeoutMs });
  closers.push(() => connection.close());
  return connection;
}

const ask = (connection: Connection, name: string) =>
  connection
    .request(APIS.metadata, { topics: [{ name }] }, { version: 1 })
    .then(({ topics }) => topics[0]!.name);

describe('a connection', () => {
  it('pipelines, and tells responses by their correlation ids in any order and in any pieces', async () => {
    const waiting: Buffer[] = [];
    const port = await peer((asked, socket) => {
      waiting.push(echo(asked));
      if (waiting.length < 3) return;
      const all = Buffer.concat(waiting.reverse());
      for (let at = 0; at < all.length; at += 3) socket.write(all.subarray(at, at + 3));
    });
    const connection = await connect(port);
    expect(await Promise.all(['a', 'b', 'c'].map((name) => ask(connection, name)))).toEqual(['a', 'b', 'c']);
  });

  it('fails what waits when the broker hangs up, and what comes after', async () => {
    const connection = await connect(await peer((_asked, socket) => socket.destroy()));
    await expect(ask(connection, 'a')).rejects.toMatchObject({ code: 'IO' });
    await expect(ask(connection, 'a')).rejects.toMatchObject({ code: 'IO' });
    expect(connection.closed).toBe(true);
  });

  it('gives up after its time', async () => {
    const connection = await connect(await peer(() => undefined), 30);
    await expect(ask(connection, 'a')).rejects.toMatchObject({ code: 'TIMEOUT' });
  });

  it('fails with CLOSED when it is closed here', async () => {
    const connection = await connect(await peer(() => undefined));
    const asking = ask(connection, 'a');
    connection.close();
    await expect(asking).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it.each([
    ['a length that is none', Buffer.from('HTTP/1.1 400 Bad Request')],
    ['a negative length', Buffer.from('ffffffff', 'hex')],
    ['an answer to nothing', Buffer.from('0000000400001234', 'hex')],
  ])('refuses %s', async (_what, bytes) => {
    const connection = await connect(await peer((_asked, socket) => socket.write(bytes)));
    await expect(ask(connection, 'a')).rejects.toMatchObject({ code: 'MALFORMED' });
  });

  it('refuses a body that ends early, and goes on', async () => {
    let count = 0;
    const port = await peer((asked, socket) =>
      socket.write(count++ === 0 ? response(asked.correlationId, (w) => w.int32(5)) : echo(asked)),
    );
    const connection = await connect(port);
    await expect(ask(connection, 'a')).rejects.toMatchObject({ code: 'MALFORMED' });
    expect(await ask(connection, 'b')).toBe('b');
  });

  it('says where nobody listens', async () => {
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as net.AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    await expect(connect(port)).rejects.toMatchObject({
      code: 'IO',
      message: expect.stringContaining(String(port)),
    });
  });
});

describe('negotiation', () => {
  const versions =
    (apiKeys: { apiKey: number; minVersion: number; maxVersion: number }[], errorCode = 0) =>
    (asked: Asked, socket: net.Socket) =>
      socket.write(
        response(asked.correlationId, (w) =>
          writeApiVersionsResponse(w, errorCode === 0 ? asked.version : 0, { errorCode, apiKeys }),
        ),
      );

  it('takes the highest version of both sides', async () => {
    const connection = await connect(
      await peer(
        versions([
          { apiKey: ApiKey.Metadata, minVersion: 0, maxVersion: 5 },
          { apiKey: ApiKey.Fetch, minVersion: 4, maxVersion: 9999 },
          { apiKey: ApiKey.Produce, minVersion: 9999, maxVersion: 9999 },
        ]),
      ),
    );
    await connection.negotiate();
    expect(connection.versionOf(ApiKey.Metadata)).toBe(5);
    expect(connection.versionOf(ApiKey.Fetch)).toBe(18);
    for (const key of [ApiKey.Produce, ApiKey.JoinGroup]) {
      expect(() => connection.versionOf(key)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
    }
  });

  it('goes down to version 0 where it must', async () => {
    const asked: number[] = [];
    const port = await peer((each, socket) => {
      asked.push(each.version);
      const known = [{ apiKey: ApiKey.ApiVersions, minVersion: 0, maxVersion: 0 }];
      // A broker that does not know version 3 answers in version 0, with error 35.
      versions(known, asked.length === 1 ? 35 : 0)({ ...each, version: 0 }, socket);
    });
    const connection = await connect(port);
    await connection.negotiate();
    expect(asked).toEqual([3, 0]);
    expect(connection.versions).toEqual(new Map([[ApiKey.ApiVersions, [0, 0]]]));
  });
});

describe('a client', () => {
  it('takes only host:port', async () => {
    for (const bad of ['', 'host', ':9092', 'host:port']) {
      await expect(Client.connect(bad)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
  });
});

describe('what was fetched', () => {
  const data = (baseOffset: number, producerId: number) =>
    new BatchBuilder({ baseOffset, producerId, producerEpoch: 0, baseSequence: 0, transactional: true })
      .append({ timestamp: 1, value: `${producerId}` })
      .append({ timestamp: 1, value: `${producerId}` })
      .build();
  const marker = (type: 0 | 1, producerId: number, baseOffset: number) =>
    endTransactionMarker(type, producerId, 0, 0, { timestamp: 1, baseOffset });
  const records = Buffer.concat([
    data(0, 7),
    data(2, 8),
    marker(ControlType.ABORT, 7, 4),
    data(5, 7),
    marker(ControlType.COMMIT, 8, 7),
    marker(ControlType.COMMIT, 7, 8),
    data(9, 7).subarray(0, 40),
  ]);
  const abortedTransactions = [{ producerId: 7, firstOffset: 0 }];
  const offsets = (from: number, committedOnly: boolean) => {
    const { records: found, nextOffset } = decodeFetched(
      { records, abortedTransactions },
      from,
      committedOnly,
    );
    return [...found.map(({ offset }) => offset), nextOffset];
  };

  it('is all data records from the offset on, and what to fetch next', () => {
    expect(offsets(0, false)).toEqual([0, 1, 2, 3, 5, 6, 9]);
    expect(offsets(3, false)).toEqual([3, 5, 6, 9]);
    expect(decodeFetched({ records: null, abortedTransactions: null }, 5, false)).toEqual({
      records: [],
      nextOffset: 5,
    });
  });

  it('lacks what was aborted, where only the committed is wanted', () => {
    expect(offsets(0, true)).toEqual([2, 3, 5, 6, 9]);
  });
});
