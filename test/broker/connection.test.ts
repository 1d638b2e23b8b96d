import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HANDLERS } from '../../src/broker/handlers/index.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import {
  type ApiVersionsRequestInput,
  readApiVersionsResponse,
  writeApiVersionsRequest,
} from '../../src/protocol/generated/ApiVersions.ts';
import { API_FACTS } from '../../src/protocol/generated/api-keys.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

let broker: TestBroker;
let client: TestClient;
beforeEach(async () => {
  broker = await TestBroker.start({
    'connection.max.queued.requests': '8',
    'max.connections': '5',
    'max.connections.per.ip': '3',
    'max.connections.per.ip.overrides': '10.0.0.7:1',
  });
  client = new TestClient(broker);
});
afterEach(() => broker.close());

/** The one line that a refused connection leaves in the log. */
function refusal(send: () => void): string {
  const before = broker.logger.lines.length;
  send();
  const lines = broker.logger.lines.slice(before);
  expect(lines).toHaveLength(1);
  expect(client.peer.closed).toBeDefined();
  return lines[0]!.message;
}

describe('garbage', () => {
  const frames: [string, number[], RegExp][] = [
    ['an unknown API', [3, 231, 0, 0, 0, 0, 0, 1, 255, 255], /unknown API key 999/],
    ['an API that is not served', [0, 67, 0, 0, 0, 0, 0, 1, 255, 255], /AllocateProducerIds.*key 67/],
    ['an unsupported version', [0, 3, 0, 99, 0, 0, 0, 1, 255, 255], /unsupported version 99 of Metadata/],
    ['a frame shorter than a header', [0], /header that does not parse/],
    ['a client id that is too long', [0, 3, 0, 1, 0, 0, 0, 1, 0, 99, 65], /header that does not parse/],
    [
      'a body that ends early',
      [0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 0],
      /Metadata version 1.*does not parse/,
    ],
    [
      'a count of 2^31-1',
      [0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 127, 255, 255, 255],
      /Metadata version 1.*does not parse/,
    ],
  ];
  for (const [what, bytes, pattern] of frames) {
    it(`closes the connection over ${what}, with one line that names peer and cause`, () => {
      const line = refusal(() => broker.transport.tick([client.peer, Uint8Array.from(bytes)]));
      expect(line).toMatch(pattern);
      expect(line).toContain('10.0.0.1:40001');
      expect(client.peer.received).toEqual([]);
    });
  }

  const badFrames: [string, Uint8Array, RegExp][] = [
    [
      'an HTTP request',
      Buffer.from('GET /index.html HTTP/1.1\r\nHost: x\r\n'),
      /HTTP request \("GET \/index.html/,
    ],
    ['a TLS hello', Buffer.from('1603010200010001fc0303', 'hex'), /TLS client hello/],
    [
      'a length of 2^31-1',
      Buffer.from('7fffffff', 'hex'),
      /2147483647 bytes, more than socket.request.max.bytes/,
    ],
    ['a negative length', Buffer.from('ffffffff', 'hex'), /negative length \(-1\)/],
    ['a length of 0', Buffer.from('00000000', 'hex'), /length 0/],
  ];
  for (const [what, bytes, pattern] of badFrames) {
    it(`says that it met ${what}`, () => {
      expect(refusal(() => broker.transport.badFrame(client.peer, bytes))).toMatch(pattern);
    });
  }

  it('serves the others of the tick', async () => {
    await client.createTopic('t');
    const other = new TestClient(broker);
    broker.transport.tick(
      [client.peer, Uint8Array.from([3, 231, 0, 0])],
      [other.peer, other.produceFrame('t', batch(['x']))],
    );
    expect([client.peer.closed, other.peer.received.length]).toEqual(['local', 1]);
  });

  it('takes bytes after the end of a request, as Kafka does', async () => {
    const frame = Buffer.concat([broker.frame(18, 0, () => {}), Buffer.from('more')]);
    broker.transport.tick([client.peer, frame]);
    await broker.answers(client.peer, 1);
  });
});

describe('ApiVersions', () => {
  const ask = (version: number, request: ApiVersionsRequestInput = {}) =>
    broker.ask(
      client.peer,
      18,
      version,
      (writer) =>
        writeApiVersionsRequest(writer, version, {
          clientSoftwareName: 'test',
          clientSoftwareVersion: '1.0',
          ...request,
        }),
      readApiVersionsResponse,
    );

  it('tells of the table, in ascending order, the same in every version', async () => {
    for (let version = 0; version <= 5; version++) {
      const answer = await ask(version);
      expect(answer.errorCode).toBe(0);
      // What is served is served as Kafka does.
      expect(answer.apiKeys.map((api) => [api.apiKey, api.minVersion, api.maxVersion])).toEqual(
        [...HANDLERS.keys()].map((key) => [key, ...API_FACTS[key]!.advertised!]),
      );
    }
  });

  it('hides features with a minimum of 0 from version 3', async () => {
    const names = async (version: number) => (await ask(version)).supportedFeatures.map((f) => f.name);
    expect(await names(3)).toEqual(['metadata.version']);
    expect(await names(4)).toContain('kraft.version');
    expect((await ask(3)).finalizedFeatures).toContainEqual({
      name: 'metadata.version',
      minVersionLevel: 33,
      maxVersionLevel: 33,
    });
  });

  it('answers an unknown version as version 0, with error 35 and the one entry to go on with', async () => {
    broker.transport.tick([client.peer, broker.frame(18, 99, (writer) => writer.int8(0))]);
    await broker.answers(client.peer, 1);
    const body = client.peer.received[0]!.subarray(4);
    expect(body.toString('hex')).toBe('002300000001001200000005');
  });

  it('checks who the client is and whom it means', async () => {
    const code = async (request: ApiVersionsRequestInput, version = 5) =>
      (await ask(version, request)).errorCode;
    const clusterId = (await client.metadata({ topics: [] })).clusterId;
    expect(await code({ clientSoftwareName: '' }, 3)).toBe(KafkaError.INVALID_REQUEST);
    expect(await code({ clientSoftwareName: 'a b' }, 3)).toBe(KafkaError.INVALID_REQUEST);
    expect(await code({ clientSoftwareVersion: '-1' }, 3)).toBe(KafkaError.INVALID_REQUEST);
    expect(await code({ clusterId, nodeId: 1 })).toBe(KafkaError.NONE);
    expect(await code({ clusterId: 'other', nodeId: 1 })).toBe(KafkaError.REBOOTSTRAP_REQUIRED);
    expect(await code({ clusterId, nodeId: 2 })).toBe(KafkaError.REBOOTSTRAP_REQUIRED);
    expect(await code({ nodeId: 1 })).toBe(KafkaError.INVALID_REQUEST);
    expect(await code({ clusterId })).toBe(KafkaError.INVALID_REQUEST);
  });
});

describe('a connection', () => {
  it('stops reading while too much waits, and goes on', async () => {
    const frames = Array.from(
      { length: 20 },
      () => [client.peer, client.produceFrame('new', batch(['x']))] as const,
    );
    broker.transport.tick(...frames);
    expect(client.peer.reading).toBe(false);
    await broker.answers(client.peer, 20);
    expect(client.peer.reading).toBe(true);
    expect((await client.fetch('new')).values).toHaveLength(20);
  });

  it('fails only the request whose handler throws', async () => {
    await client.createTopic('t');
    const other = new TestClient(broker);
    const partition = [...broker.engine.logs].find(({ dir }) => dir === '/data/t-0')!;
    const { read } = partition;
    await other.produce('t', batch(['x']));
    partition.read = () => {
      throw new Error('broken');
    };
    broker.transport.tick(
      [client.peer, client.fetchFrame('t')],
      [other.peer, other.produceFrame('t', batch(['y']))],
    );
    expect(client.peer.closed).toBe('local');
    expect(broker.logger.of('error')).toEqual(['Fetch failed: broken']);
    partition.read = read;
    expect((await other.fetch('t')).values).toEqual(['x', 'y']);
  });

  it('answers what it was asked before the peer ended its side, then closes', async () => {
    await client.createTopic('t');
    const before = client.peer.received.length;
    broker.transport.tick([client.peer, client.fetchFrame('t', { maxWaitMs: 60_000 })]);
    broker.transport.end(client.peer);
    expect(client.peer.received.length).toBe(before + 1);
    expect(client.peer.closed).toBe('local');
    const other = new TestClient(broker);
    broker.transport.end(other.peer);
    expect(other.peer.closed).toBe('local');
  });

  it('is refused where its address has too many', () => {
    const more = [1, 2, 3].map(() => broker.transport.connect());
    expect(more.map((peer) => peer.closed)).toEqual([undefined, undefined, 'local']);
    expect(broker.logger.of('warn').at(-1)).toContain('max.connections.per.ip 3');
    const [one, two] = [broker.transport.connect('10.0.0.7'), broker.transport.connect('10.0.0.7')];
    expect([one.closed, two.closed]).toEqual([undefined, 'local']);
    broker.transport.hangUp(one);
    expect(broker.transport.connect('10.0.0.7').closed).toBeUndefined();
  });

  it('waits to be accepted past max.connections', () => {
    const peers = [1, 2, 3, 4].map((n) => broker.transport.connect(`10.0.1.${n}`));
    expect(broker.transport.accepting.get(0)).toBe(false);
    broker.transport.hangUp(peers[0]!);
    expect(broker.transport.accepting.get(0)).toBe(true);
  });
});
