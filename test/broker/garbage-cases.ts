/**
 * What comes to a Kafka port and is no Kafka request, or only half of one; and what is to become of the connection. Apache
 * Kafka 4.4 was sent the same bytes, with the same outcomes.
 */
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { writeRequestHeader } from '../../src/protocol/generated/headers.ts';
import { Writer } from '../../src/protocol/writer.ts';

export interface GarbageCase {
  readonly name: string;
  readonly bytes: Buffer;
  /** `closed`: without a byte in answer. `waits`: nothing is said until the rest comes. */
  readonly outcome: 'closed' | 'answered' | 'waits';
  /** In the one log line, besides the peer; none where nothing is wrong yet. */
  readonly cause?: RegExp;
}

export function framed(body: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length);
  return Buffer.concat([length, body]);
}

/** A whole request of an API, with whatever body. */
export function request(key: number, version: number, body: Uint8Array = new Uint8Array(0)): Buffer {
  const writer = new Writer(64);
  writeRequestHeader(writer, API_FACTS[key]?.requestHeaderVersion(version) ?? 2, {
    requestApiKey: key,
    requestApiVersion: version,
    correlationId: 7,
    clientId: 'garbage',
  });
  return framed(Buffer.concat([writer.bytes(), body]));
}

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');

const TLS_HELLO = hex(
  '16 03 01 00 8d 01 00 00 89 03 03 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 55 ' +
    '55 55 55 55 55 00 00 02 13 01 01 00',
);

/** Produce v3: acks, timeout, then an array of topics. */
const PRODUCE_HEAD = 'ffff 0001 000003e8';
const body = (text: string) => hex(text);

/** A request whose body, in hex, does not parse: the connection is closed, and the log says which it was. */
function unparsable(name: string, api: keyof typeof ApiKey, version: number, text: string): GarbageCase {
  return {
    name,
    bytes: request(ApiKey[api], version, body(text)),
    outcome: 'closed',
    cause: new RegExp(`${api} version ${version}\\) whose body does not parse`),
  };
}

export const GARBAGE: readonly GarbageCase[] = [
  {
    name: 'an HTTP request',
    bytes: Buffer.from('GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    outcome: 'closed',
    cause: /an HTTP request \("GET \/index.html HTTP\/1.1"\)/,
  },
  { name: 'a TLS hello', bytes: TLS_HELLO, outcome: 'closed', cause: /a TLS client hello/ },
  {
    name: 'an SSH client',
    bytes: Buffer.from('SSH-2.0-OpenSSH_9.6\r\n'),
    outcome: 'closed',
    cause: /an SSH client/,
  },
  {
    name: 'a length of 2^31-1',
    bytes: hex('7fffffff'),
    outcome: 'closed',
    cause: /a frame of 2147483647 bytes/,
  },
  { name: 'a length of -1', bytes: hex('ffffffff'), outcome: 'closed', cause: /negative length \(-1\)/ },
  {
    name: 'a length of -2^31',
    bytes: hex('80000000'),
    outcome: 'closed',
    cause: /negative length \(-2147483648\)/,
  },
  { name: 'a length of 0', bytes: hex('00000000'), outcome: 'closed', cause: /length 0/ },
  {
    name: 'a frame of one byte',
    bytes: hex('00000001 00'),
    outcome: 'closed',
    cause: /header that does not parse/,
  },
  { name: 'half a length', bytes: hex('0000'), outcome: 'waits' },
  {
    name: 'half a request',
    bytes: request(ApiKey.Metadata, 1, body('ffffffff')).subarray(0, 12),
    outcome: 'waits',
  },
  {
    name: 'an unknown API',
    bytes: request(999, 0),
    outcome: 'closed',
    cause: /unknown API key 999/,
  },
  { name: 'a negative API key', bytes: request(-1, 0), outcome: 'closed', cause: /unknown API key -1/ },
  {
    name: 'a version too new',
    bytes: request(ApiKey.Metadata, 99, body('00')),
    outcome: 'closed',
    cause: /unsupported version 99 of Metadata/,
  },
  {
    name: 'a negative version',
    bytes: request(ApiKey.Metadata, -1, body('ffffffff')),
    outcome: 'closed',
    cause: /unsupported version -1 of Metadata/,
  },
  {
    name: 'a version that is advertised and not served',
    bytes: request(ApiKey.Produce, 0, body('0001 000003e8 00000000')),
    outcome: 'closed',
    cause: /unsupported version 0 of Produce/,
  },
  { name: 'an ApiVersions too new', bytes: request(ApiKey.ApiVersions, 99), outcome: 'answered' },
  {
    name: 'a client id longer than the frame',
    bytes: framed(hex('0003 0001 00000007 7fff 61')),
    outcome: 'closed',
    cause: /request header that does not parse/,
  },
  unparsable('an array of 2^31-1 topics', 'Metadata', 1, '7fffffff'),
  {
    // Any negative count of this array is null: all topics.
    name: 'an array of -2 topics',
    bytes: request(ApiKey.Metadata, 1, body('fffffffe')),
    outcome: 'answered',
  },
  unparsable('a null array where none may be', 'ListOffsets', 1, 'ffffffff ffffffff'),
  unparsable('a string of negative length', 'Metadata', 1, '00000001 8000'),
  unparsable('a compact array of 2^32-2 topics', 'Metadata', 9, 'ffffffff0f'),
  unparsable('a varint without an end', 'Metadata', 9, 'ffffffffffffffffffff'),
  unparsable('a body that ends early', 'Metadata', 1, '00000002 0001 61'),
  unparsable(
    'a Produce whose records end early',
    'Produce',
    3,
    `${PRODUCE_HEAD} 00000001 0001 74 00000001 00000000 00000fff 00`,
  ),
  {
    name: 'a Produce with records of length -2',
    bytes: request(ApiKey.Produce, 3, body(`${PRODUCE_HEAD} 00000001 0001 74 00000001 00000000 fffffffe`)),
    outcome: 'answered',
  },
  unparsable(
    'a Fetch with a count past its end',
    'Fetch',
    4,
    'ffffffff 00000000 00000001 7fffffff 00 00ffffff',
  ),
  {
    name: 'bytes behind the body',
    bytes: request(ApiKey.Metadata, 1, body('00000000 deadbeef')),
    outcome: 'answered',
  },
];
