import { describe, expect, it } from 'vitest';
import {
  beginResponse,
  expectEnd,
  finishResponse,
  readClientId,
  readRequestStart,
} from '../../src/protocol/api.ts';
import { errorName, KafkaError, kafkaCodeOf, RETRIABLE } from '../../src/protocol/errors.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readConsumerGroupMemberMetadataValue,
  writeConsumerGroupMemberMetadataValue,
} from '../../src/protocol/generated/group-coordinator.ts';
import { readRequestHeader, writeRequestHeader } from '../../src/protocol/generated/headers.ts';
import { readMetadataRequest, writeMetadataRequest } from '../../src/protocol/generated/Metadata.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { BroadsheetError, type ErrorCode } from '../../src/runtime/errors.ts';

describe('the table of APIs', () => {
  it('is indexed by key', () => {
    expect(API_FACTS.map((facts) => facts.key)).toEqual(API_FACTS.map((_, index) => index));
    expect(API_FACTS[ApiKey.Metadata]!.name).toBe('Metadata');
  });

  it('knows the headers', () => {
    const apiVersions = API_FACTS[ApiKey.ApiVersions]!;
    expect([2, 3].map((v) => apiVersions.requestHeaderVersion(v))).toEqual([1, 2]);
    expect([0, 3, 5].map((v) => apiVersions.responseHeaderVersion(v))).toEqual([0, 0, 0]);
    const produce = API_FACTS[ApiKey.Produce]!;
    expect([8, 9].map((v) => produce.requestHeaderVersion(v))).toEqual([1, 2]);
    expect([8, 9].map((v) => produce.responseHeaderVersion(v))).toEqual([0, 1]);
    expect(produce.advertised).toEqual([0, 13]);
    expect([produce.minVersion, produce.maxVersion]).toEqual([3, 13]);
    expect(API_FACTS[4]!.advertised).toBeNull();
    expect(API_FACTS[4]!.maxVersion).toBe(-1);
  });
});

describe('headers', () => {
  it.each([1, 2])('a request with header version %i', (version) => {
    const w = new Writer();
    const tags = version === 2 ? { unknownTaggedFields: [{ tag: 5, data: new Uint8Array(3) }] } : {};
    const header = { requestApiKey: 3, requestApiVersion: 12, correlationId: -7, clientId: 'me', ...tags };
    writeRequestHeader(w, version, header);
    w.int8(1);
    const r = new Reader(w.bytes());
    const start = { apiKey: 0, apiVersion: 0, correlationId: 0 };
    readRequestStart(r, start);
    expect(start).toEqual({ apiKey: 3, apiVersion: 12, correlationId: -7 });
    expect(readClientId(r, version)).toBe('me');
    expect(() => expectEnd(r)).toThrow(/1 bytes after the end/);
    expect(r.int8()).toBe(1);
    expectEnd(r);
    expect(readRequestHeader(new Reader(w.bytes()), version).clientId).toBe('me');
  });

  it('a response begins with its length', () => {
    const w = new Writer();
    w.int8(0);
    const at = beginResponse(w, 258, 1);
    w.int16(3);
    finishResponse(w, at, 100);
    expect(w.bytes().toString('hex')).toBe('000000006b00000102000003');
    w.reset();
    finishResponse(w, beginResponse(w, 1, 0));
    expect(w.bytes().toString('hex')).toBe('0000000400000001');
  });
});

describe('generated writers', () => {
  it('take defaults for what is left out', () => {
    const w = new Writer();
    writeMetadataRequest(w, 12, { topics: null });
    expect(readMetadataRequest(new Reader(w.bytes()), 12)).toEqual({
      topics: null,
      allowAutoTopicCreation: true,
      includeClusterAuthorizedOperations: false,
      includeTopicAuthorizedOperations: false,
    });
  });

  it('refuse values that the version has no place for', () => {
    const w = new Writer();
    const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
    expect(() => writeMetadataRequest(w, 3, { topics: [], allowAutoTopicCreation: false })).toThrow(invalid);
    expect(() => writeMetadataRequest(w, 0, { topics: null })).toThrow(invalid);
    expect(() => writeMetadataRequest(w, 99, { topics: null })).toThrow(invalid);
    const tags = [{ tag: 9, data: new Uint8Array(1) }];
    expect(() => writeMetadataRequest(w, 3, { topics: [], unknownTaggedFields: tags })).toThrow(invalid);
    expect(() => readMetadataRequest(new Reader(Buffer.alloc(20)), 99)).toThrow(
      expect.objectContaining({ code: 'MALFORMED' }),
    );
  });

  it('write null where a struct, not null, is the default (as in Kafka 4.4, whose schema has a null that is none)', () => {
    const member = {
      instanceId: null,
      rackId: null,
      clientId: '',
      clientHost: '',
      subscribedTopicNames: [],
      subscribedTopicRegex: null,
      rebalanceTimeoutMs: -1,
      serverAssignor: null,
    };
    const size = (extra: object) => {
      const w = new Writer();
      writeConsumerGroupMemberMetadataValue(w, 0, { ...member, ...extra });
      return w.position;
    };
    expect(size({ classicMemberMetadata: null })).toBe(size({}) + 3);
  });

  it('read and write a null struct in a tagged field as Apache Kafka does', () => {
    // A static member of the consumer protocol, from the __consumer_offsets of an Apache Kafka 4.4.
    const stored = Buffer.from(
      '097374617469632d310027636f6e73756d65722d67726f75702d616c6976652d636f6e73756d65722d7374617469632d31' +
        '0b2f3132372e302e302e31020667726f776e01000493e00001000100',
      'hex',
    );
    const member = readConsumerGroupMemberMetadataValue(new Reader(stored), 0);
    expect(member).toMatchObject({
      instanceId: 'static-1',
      subscribedTopicRegex: '',
      classicMemberMetadata: null,
    });
    const w = new Writer();
    writeConsumerGroupMemberMetadataValue(w, 0, member);
    expect(Buffer.from(w.bytes()).toString('hex')).toBe(stored.toString('hex'));
  });
});

describe('error codes', () => {
  it('have names', () => {
    expect(errorName(KafkaError.NOT_ENOUGH_REPLICAS)).toBe('NOT_ENOUGH_REPLICAS');
    expect(errorName(-1)).toBe('UNKNOWN_SERVER_ERROR');
    expect(errorName(9999)).toBe('UNKNOWN_CODE_9999');
    expect(RETRIABLE.has(KafkaError.NOT_ENOUGH_REPLICAS)).toBe(true);
    expect(RETRIABLE.has(KafkaError.INVALID_RECORD)).toBe(false);
  });

  it.each<[ErrorCode, number]>([
    ['OFFLINE', 56],
    ['IO', 56],
    ['NO_SPACE', 56],
    ['BATCH_CORRUPT', 2],
    ['BATCH_INVALID', 87],
    ['BATCH_TOO_LARGE', 10],
    ['OFFSET_OUT_OF_RANGE', 1],
    ['TIMESTAMP_INVALID', 32],
    ['MALFORMED', 42],
    ['INVALID_CONFIG', 40],
    ['CLOSED', -1],
  ])('%s is %i', (code, kafka) => {
    expect(kafkaCodeOf(new BroadsheetError(code, ''))).toBe(kafka);
  });

  it('of a foreign error is UNKNOWN_SERVER_ERROR', () => {
    expect(kafkaCodeOf(new TypeError(''))).toBe(-1);
    expect(kafkaCodeOf('text')).toBe(-1);
  });
});
