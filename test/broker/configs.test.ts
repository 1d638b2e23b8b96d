/** Configs over the wire: what is shown, what is taken, what takes effect, and what a restart keeps. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { errorName } from '../../src/protocol/errors.ts';
import {
  readAlterConfigsResponse,
  writeAlterConfigsRequest,
} from '../../src/protocol/generated/AlterConfigs.ts';
import {
  readDescribeConfigsResponse,
  writeDescribeConfigsRequest,
} from '../../src/protocol/generated/DescribeConfigs.ts';
import {
  readIncrementalAlterConfigsResponse,
  writeIncrementalAlterConfigsRequest,
} from '../../src/protocol/generated/IncrementalAlterConfigs.ts';
import {
  readListConfigResourcesResponse,
  writeListConfigResourcesRequest,
} from '../../src/protocol/generated/ListConfigResources.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

const [TOPIC, BROKER, LOGGER, METRICS, GROUP] = [2, 4, 8, 16, 32] as const;
const [SET, DELETE, APPEND, SUBTRACT] = [0, 1, 2, 3] as const;
type Change = readonly [name: string, operation: number, value: string | null];

let broker: TestBroker;
let client: TestClient;

beforeEach(async () => {
  broker = await TestBroker.start();
  client = new TestClient(broker);
});
afterEach(() => broker.close());

async function restart(): Promise<void> {
  await broker.close();
  broker = await TestBroker.start({}, broker.engine);
  client = new TestClient(broker);
}

async function describeResource(type: number, name: string, keys: string[] | null = null, version = 4) {
  const { results } = await broker.ask(
    client.peer,
    32,
    version,
    (writer) =>
      writeDescribeConfigsRequest(writer, version, {
        resources: [{ resourceType: type, resourceName: name, configurationKeys: keys }],
        includeSynonyms: true,
        ...(version >= 3 ? { includeDocumentation: true } : {}),
      }),
    readDescribeConfigsResponse,
  );
  return results[0]!;
}

async function config(type: number, name: string, key: string) {
  const { configs } = await describeResource(type, name, [key]);
  return configs[0];
}

async function alterAll(resources: readonly [type: number, name: string, changes: readonly Change[]][]) {
  const { responses } = await broker.ask(
    client.peer,
    44,
    1,
    (writer) =>
      writeIncrementalAlterConfigsRequest(writer, 1, {
        resources: resources.map(([resourceType, resourceName, changes]) => ({
          resourceType,
          resourceName,
          configs: changes.map(([name, configOperation, value]) => ({ name, configOperation, value })),
        })),
        validateOnly: false,
      }),
    readIncrementalAlterConfigsResponse,
  );
  return responses.map((response) => errorName(response.errorCode));
}

async function alter(type: number, name: string, ...changes: Change[]): Promise<string> {
  return (await alterAll([[type, name, changes]]))[0]!;
}

async function replace(type: number, name: string, values: Record<string, string>, validateOnly = false) {
  const { responses } = await broker.ask(
    client.peer,
    33,
    2,
    (writer) =>
      writeAlterConfigsRequest(writer, 2, {
        resources: [
          {
            resourceType: type,
            resourceName: name,
            configs: Object.entries(values).map(([key, value]) => ({ name: key, value })),
          },
        ],
        validateOnly,
      }),
    readAlterConfigsResponse,
  );
  return errorName(responses[0]!.errorCode);
}

async function list(types: number[], version = 1) {
  const answer = await broker.ask(
    client.peer,
    74,
    version,
    (writer) => writeListConfigResourcesRequest(writer, version, { resourceTypes: types }),
    readListConfigResourcesResponse,
  );
  return [
    errorName(answer.errorCode),
    ...answer.configResources.map((r) => `${r.resourceType}:${r.resourceName}`),
  ];
}

describe('configs of topics', () => {
  beforeEach(async () => {
    await client.createTopic('t', 2, { 'retention.ms': '1000' });
  });

  it('are shown with sources and synonyms', async () => {
    expect(await config(TOPIC, 't', 'retention.ms')).toMatchObject({
      value: '1000',
      configSource: 1,
      configType: 5,
    });
    expect(await config(TOPIC, 't', 'segment.bytes')).toMatchObject({
      value: '1073741824',
      configSource: 5,
      synonyms: [{ name: 'log.segment.bytes', value: '1073741824', source: 5 }],
    });
    const { configs } = await describeResource(TOPIC, 't', []);
    expect(configs.length).toBe(37);
    expect(configs.every((entry) => entry.documentation !== null)).toBe(true);
    const old = await describeResource(TOPIC, 't', null, 1);
    expect(old.configs.some((entry) => entry.documentation)).toBe(false);
  });

  it('are set, removed, appended to and taken from, and a restart keeps them', async () => {
    expect(
      await alter(TOPIC, 't', ['cleanup.policy', APPEND, 'compact'], ['retention.ms', DELETE, null]),
    ).toBe('NONE');
    expect((await config(TOPIC, 't', 'cleanup.policy'))?.value).toBe('delete,compact');
    expect(await alter(TOPIC, 't', ['cleanup.policy', SUBTRACT, 'delete,none'])).toBe('NONE');
    await restart();
    expect(await config(TOPIC, 't', 'cleanup.policy')).toMatchObject({ value: 'compact', configSource: 1 });
    expect(await config(TOPIC, 't', 'retention.ms')).toMatchObject({ value: '604800000', configSource: 5 });
  });

  it('are refused as a whole and leave nothing behind', async () => {
    const before = await describeResource(TOPIC, 't');
    expect(await alter(TOPIC, 't', ['flush.messages', SET, '5'], ['no.such.key', SET, '1'])).toBe(
      'INVALID_CONFIG',
    );
    expect(await alter(TOPIC, 't', ['segment.bytes', SET, '5'])).toBe('INVALID_CONFIG');
    expect(await alter(TOPIC, 't', ['retention.ms', APPEND, '5'])).toBe('INVALID_CONFIG');
    expect(await alter(TOPIC, 't', ['retention.ms', SET, null])).toBe('INVALID_REQUEST');
    expect(await alter(TOPIC, 't', ['retention.ms', SET, '1'], ['retention.ms', SET, '2'])).toBe(
      'INVALID_REQUEST',
    );
    expect(await alter(TOPIC, 'missing', ['retention.ms', SET, '5'])).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    expect(await alter(TOPIC, 'a/b', ['retention.ms', SET, '5'])).toBe('INVALID_TOPIC_EXCEPTION');
    expect(await replace(TOPIC, 't', { 'flush.messages': '5' }, true)).toBe('NONE');
    expect(await describeResource(TOPIC, 't')).toEqual(before);
  });

  it('judges each resource by itself and one that comes twice not at all', async () => {
    const change: Change = ['flush.messages', SET, '5'];
    await client.createTopic('u');
    expect(
      await alterAll([
        [TOPIC, 't', [change]],
        [TOPIC, 'missing', [change]],
        [TOPIC, 'u', [change]],
        [TOPIC, 't', [change]],
      ]),
    ).toEqual(['INVALID_REQUEST', 'UNKNOWN_TOPIC_OR_PARTITION', 'NONE', 'INVALID_REQUEST']);
  });

  it('replaces all values with AlterConfigs', async () => {
    expect(await replace(TOPIC, 't', { 'flush.messages': '5' })).toBe('NONE');
    const { configs } = await describeResource(TOPIC, 't');
    const own = configs.filter((entry) => entry.configSource === 1).map((entry) => entry.name);
    expect(own).toEqual(['flush.messages']);
  });

  it('take effect on the next produce', async () => {
    expect((await client.produce('t', batch(['x'.repeat(500)]))).errorCode).toBe(0);
    await alter(
      TOPIC,
      't',
      ['max.message.bytes', SET, '100'],
      ['message.timestamp.type', SET, 'LogAppendTime'],
    );
    expect(errorName((await client.produce('t', batch(['x'.repeat(500)]))).errorCode)).toBe(
      'MESSAGE_TOO_LARGE',
    );
    expect((await client.produce('t', batch(['x']))).logAppendTimeMs).toBe(broker.clock.now());
    await alter(TOPIC, 't', ['min.insync.replicas', SET, '2']);
    expect(errorName((await client.produce('t', batch(['x']))).errorCode)).toBe('NOT_ENOUGH_REPLICAS');
    await alter(TOPIC, 't', ['min.insync.replicas', DELETE, null], ['message.timestamp.type', DELETE, null]);
    expect((await client.produce('t', batch(['x']))).logAppendTimeMs).toBe(-1);
  });
});

describe('configs of brokers', () => {
  it('layer this broker over all brokers over the file over the default', async () => {
    await broker.close();
    broker = await TestBroker.start({ 'log.segment.bytes': '2000000' });
    client = new TestClient(broker);
    await client.createTopic('t');
    const shown = async () => (await config(TOPIC, 't', 'segment.bytes'))!;
    expect(await shown()).toMatchObject({ value: '2000000', configSource: 4 });
    expect(await alter(BROKER, '', ['log.segment.bytes', SET, '3000000'])).toBe('NONE');
    expect(await shown()).toMatchObject({ value: '3000000', configSource: 3 });
    expect(await alter(BROKER, '1', ['log.segment.bytes', SET, '4000000'])).toBe('NONE');
    const { value, synonyms } = await shown();
    expect(value).toBe('4000000');
    expect(synonyms.map((each) => `${each.source}:${each.value}`)).toEqual([
      '2:4000000',
      '3:3000000',
      '4:2000000',
      '5:1073741824',
    ]);
    await broker.close();
    broker = await TestBroker.start({}, broker.engine);
    client = new TestClient(broker);
    expect(await shown()).toMatchObject({ value: '4000000', configSource: 2 });
    expect(await alter(BROKER, '1', ['log.segment.bytes', DELETE, null])).toBe('NONE');
    expect(await shown()).toMatchObject({ value: '3000000', configSource: 3 });
  });

  it('reach the topics that have no value of their own at once', async () => {
    await client.createTopic('plain');
    await client.createTopic('own', 1, { 'max.message.bytes': '1000' });
    await alter(BROKER, '', ['message.max.bytes', SET, '100']);
    const large = batch(['x'.repeat(500)]);
    expect(errorName((await client.produce('plain', large)).errorCode)).toBe('MESSAGE_TOO_LARGE');
    expect((await client.produce('own', large)).errorCode).toBe(0);
    await alter(BROKER, '', ['message.max.bytes', DELETE, null]);
    expect((await client.produce('plain', large)).errorCode).toBe(0);
  });

  it('refuse what Kafka takes at the start only, and what it would not take', async () => {
    for (const [name, key, value] of [
      ['1', 'num.partitions', '5'],
      ['', 'auto.create.topics.enable', 'false'],
      ['1', 'node.id', '7'],
      ['1', 'listeners', 'PLAINTEXT://:1'],
      ['1', 'log.segment.bytes', '5'],
      ['1', 'log.roll.ms', '0'],
      ['1', 'log.retention.ms', '0'],
      ['1', 'num.io.threads', '100'],
      ['1', 'max.connections.per.ip.overrides', 'nonsense'],
      ['1', 'ssl.keystore.location', '/x'],
      ['', 'listener.name.a.ssl.keystore.location', '/x'],
      ['2', 'log.segment.bytes', '2000000'],
      ['x', 'log.segment.bytes', '2000000'],
    ] as const) {
      expect(await alter(BROKER, name, [key, SET, value]), key).toBe('INVALID_REQUEST');
    }
    expect((await describeResource(BROKER, '')).configs).toEqual([]);
  });

  it('show node.id, hide passwords and unknown keys', async () => {
    expect(await config(BROKER, '1', 'node.id')).toMatchObject({ value: '1', readOnly: true });
    expect(await alter(BROKER, '1', ['some.plugin.key', SET, 'secret'])).toBe('NONE');
    expect(await config(BROKER, '1', 'some.plugin.key')).toMatchObject({ value: null, isSensitive: true });
    expect((await config(BROKER, '1', 'log.segment.bytes'))?.readOnly).toBe(false);
    expect(errorName((await describeResource(BROKER, '2')).errorCode)).toBe('INVALID_REQUEST');
  });

  it('limits connections as it is told to', async () => {
    await alter(BROKER, '1', ['max.connections.per.ip', SET, '1']);
    expect(broker.transport.connect().closed).toBeDefined();
    await alter(BROKER, '1', ['max.connections.per.ip', DELETE, null]);
    expect(broker.transport.connect().closed).toBeUndefined();
  });
});

describe('configs of the rest', () => {
  it('change the levels of loggers until the next start', async () => {
    const requests = 'kafka.server.KafkaApis';
    expect((await config(LOGGER, '1', requests))?.value).toBe('DEBUG');
    expect(await alter(LOGGER, '1', ['root', SET, 'FATAL'])).toBe('NONE');
    expect((await config(LOGGER, '1', requests))?.value).toBe('FATAL');
    expect(await alter(LOGGER, '1', [requests, SET, 'WARN'])).toBe('NONE');
    expect((await config(LOGGER, '1', requests))?.value).toBe('WARN');
    expect(await alter(LOGGER, '1', [requests, DELETE, null])).toBe('NONE');
    expect((await config(LOGGER, '1', requests))?.value).toBe('FATAL');
    expect(await alter(LOGGER, '1', ['root', DELETE, null])).toBe('INVALID_REQUEST');
    expect(await alter(LOGGER, '1', ['root', SET, 'LOUD'])).toBe('INVALID_CONFIG');
    expect(await alter(LOGGER, '1', ['no.such.Logger', SET, 'INFO'])).toBe('INVALID_CONFIG');
    expect(await alter(LOGGER, '2', ['root', SET, 'INFO'])).toBe('INVALID_REQUEST');
    const before = broker.logger.lines.length;
    await restart();
    expect(before).toBe(broker.logger.lines.length === 0 ? -1 : before);
    expect((await config(LOGGER, '1', 'root'))?.value).toBe('DEBUG');
  });

  it('keep groups within the bounds of the broker', async () => {
    expect(await alter(GROUP, 'g', ['consumer.session.timeout.ms', SET, '50000'])).toBe('NONE');
    expect(await config(GROUP, 'g', 'consumer.session.timeout.ms')).toMatchObject({
      value: '50000',
      configSource: 8,
    });
    expect(await config(GROUP, 'other', 'consumer.session.timeout.ms')).toMatchObject({ value: '45000' });
    expect(await alter(GROUP, 'g', ['consumer.session.timeout.ms', SET, '60001'])).toBe('INVALID_CONFIG');
    expect(await alter(GROUP, 'g', ['share.auto.offset.reset', SET, 'by_duration:PT1H'])).toBe('NONE');
    expect(await alter(GROUP, 'g', ['share.auto.offset.reset', SET, 'by_duration:1h'])).toBe(
      'INVALID_CONFIG',
    );
    expect(await alter(GROUP, 'g', ['retention.ms', SET, '5'])).toBe('INVALID_CONFIG');
    expect(await alter(GROUP, '', ['consumer.session.timeout.ms', SET, '50000'])).toBe('INVALID_REQUEST');
  });

  it('store subscriptions for client metrics and list what is configured', async () => {
    await client.createTopic('t');
    expect(await alter(METRICS, 's', ['interval.ms', SET, '1000'], ['match', SET, 'client_id=a.*'])).toBe(
      'NONE',
    );
    expect(await alter(METRICS, 's', ['interval.ms', SET, '99'])).toBe('INVALID_REQUEST');
    expect(await alter(METRICS, 's', ['match', SET, 'client_id'])).toBe('INVALID_CONFIG');
    expect(await alter(GROUP, 'g', ['consumer.heartbeat.interval.ms', SET, '6000'])).toBe('NONE');
    expect(await list([], 0)).toEqual(['NONE', '16:s']);
    expect((await list([])).sort()).toEqual(['16:s', '2:t', '32:g', '4:1', '8:1', 'NONE']);
    expect(await list([TOPIC, GROUP])).toEqual(['NONE', '2:t', '32:g']);
    expect(await list([99])).toEqual(['UNSUPPORTED_VERSION']);
    expect(await replace(METRICS, 's', {})).toBe('NONE');
    expect(await list([METRICS])).toEqual(['NONE']);
  });
});
