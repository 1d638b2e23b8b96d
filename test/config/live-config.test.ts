/** The configuration as a live view, and which of Kafka's keys it obeys. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BrokerConfig } from '../../src/config/broker-config.ts';
import { configText } from '../../src/config/config-texts.ts';
import {
  BROKER_CONFIGS,
  CLIENT_METRICS_CONFIGS,
  formatConfig,
  GROUP_CONFIGS,
  TOPIC_CONFIGS,
} from '../../src/config/definitions.ts';
import { hasEffect, keysWithoutEffect, TOPIC_KEYS_WITHOUT_EFFECT } from '../../src/config/effect.ts';
import { parseProperties } from '../../src/config/properties.ts';
import { topicConfig } from '../../src/config/topic-config.ts';

/** The keys and values of the server.properties that comes with Apache Kafka 4.4, those that it comments out included. */
const QUICK_START = `
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.flush.interval.messages=10000
log.flush.interval.ms=1000
log.retention.hours=168
log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`;

function config(entries: Record<string, string>): BrokerConfig {
  return new BrokerConfig(new Map(Object.entries(entries)));
}

/** Text of all source files of the product. */
function sources(folder = new URL('../../src/', import.meta.url)): string {
  return readdirSync(folder, { withFileTypes: true })
    .map((entry) => {
      if (entry.isDirectory()) return sources(new URL(`${entry.name}/`, folder));
      return entry.name.endsWith('.ts') ? readFileSync(new URL(entry.name, folder), 'utf8') : '';
    })
    .join('\n');
}

describe('the live view', () => {
  it('gives the value in force and tells which keys changed', () => {
    const broker = config({ 'message.max.bytes': '1000', 'log.segment.bytes': '2000000' });
    const heard: string[][] = [];
    const forget = broker.onChange((changed) => heard.push([...changed].sort()));
    expect(broker.number('message.max.bytes')).toBe(1000);
    broker.setDynamic(new Map([['message.max.bytes', '500']]), new Map());
    expect(broker.number('message.max.bytes')).toBe(500);
    broker.setDynamic(new Map([['message.max.bytes', '500']]), new Map([['message.max.bytes', '700']]));
    expect(broker.number('message.max.bytes')).toBe(700);
    expect(topicConfig(new Map(), broker).maxMessageBytes).toBe(700);
    broker.setDynamic(new Map(), new Map([['message.max.bytes', '700']]));
    expect(broker.textIfSet('log.segment.bytes')).toBe('2000000');
    forget();
    broker.setDynamic(new Map(), new Map());
    expect(broker.number('message.max.bytes')).toBe(1000);
    expect(heard).toEqual([['message.max.bytes'], ['message.max.bytes']]);
  });

  it('shows values in one form', () => {
    const shown = (key: string, text: string) => formatConfig(TOPIC_CONFIGS.get(key)!, text);
    expect(shown('flush.ms', '+9223372036854775807')).toBe('9223372036854775807');
    expect(shown('preallocate', ' TRUE ')).toBe('true');
    expect(shown('cleanup.policy', 'compact , delete')).toBe('compact,delete');
    expect(shown('min.cleanable.dirty.ratio', '1')).toBe('1.0');
    expect(shown('min.cleanable.dirty.ratio', '0.00001')).toBe('1.0E-5');
    expect(shown('min.cleanable.dirty.ratio', '0.50')).toBe('0.5');
    const rate = BROKER_CONFIGS.get('log.cleaner.io.max.bytes.per.second')!;
    expect(formatConfig(rate, rate.default!)).toBe(rate.default);
  });

  it('checks the defaults of topics as it checks topics', () => {
    expect(() => config({ 'log.roll.ms': '0' })).toThrow('log.roll.ms');
    expect(() => config({ 'log.retention.ms': '0' })).toThrow('log.retention.ms');
    expect(topicConfig(new Map(), config({ 'log.retention.ms': '-5' })).retentionMs).toBe(-1);
  });
});

describe("Kafka's quick-start file", () => {
  const broker = new BrokerConfig(parseProperties(QUICK_START));

  it('is understood', () => {
    expect(broker.nodeId).toBe(1);
    expect(broker.dataDir).toBe('/tmp/kraft-combined-logs');
    expect(broker.listeners).toEqual([{ name: 'PLAINTEXT', host: '', port: 9092 }]);
    expect(broker.advertisedListeners).toEqual([{ name: 'PLAINTEXT', host: 'localhost', port: 9092 }]);
    expect(topicConfig(new Map(), broker)).toMatchObject({ flushMessages: 10_000, flushMs: 1000 });
  });

  it('is told once what has no effect', () => {
    expect(broker.warnings).toEqual([
      'these configurations have no effect here: controller.quorum.bootstrap.servers, inter.broker.listener.name, ' +
        'num.io.threads, num.network.threads, num.recovery.threads.per.data.dir',
    ]);
    expect(keysWithoutEffect(new Map([['transaction.state.log.replication.factor', '3']]))).toHaveLength(1);
  });

  it('is refused where it cannot be served', () => {
    expect(() => config({ 'process.roles': 'controller' })).toThrow('process.roles is controller');
    expect(() => config({ 'node.id': '1', 'broker.id': '2' })).toThrow('node.id is 1 and broker.id is 2');
    expect(() => config({ 'log.dirs': '/a', 'metadata.log.dir': '/b' }).dataDir).toThrow(
      'metadata.log.dir is /b',
    );
    expect(config({ 'broker.id': '7' }).nodeId).toBe(7);
    expect(config({}).nodeId).toBeUndefined();
  });
});

describe('keys', () => {
  it('that the broker reads are known to have an effect', () => {
    const read = [...sources().matchAll(/\b(?:number|boolean|string|list|textIfSet)\(\s*'([a-z][a-z.]+)'/g)]
      .map((match) => match[1]!)
      .filter((name) => BROKER_CONFIGS.has(name));
    expect(read.length).toBeGreaterThan(20);
    expect([...new Set(read)].filter((name) => !hasEffect(name, '1'))).toEqual([]);
  });

  it('of topics that have no effect are listed with the reason', () => {
    const differences = readFileSync(new URL('../../docs/DIFFERENCES.md', import.meta.url), 'utf8');
    const missing = [...TOPIC_KEYS_WITHOUT_EFFECT].filter((name) => !differences.includes(`\`${name}\``));
    expect(missing).toEqual([]);
    expect([...TOPIC_KEYS_WITHOUT_EFFECT].filter((name) => !TOPIC_CONFIGS.has(name))).toEqual([]);
  });

  it('of topics, groups, client metrics, and those obeyed of brokers have a text', () => {
    const text = (type: number, name: string) => configText(type, name, () => undefined);
    const without = (type: number, names: Iterable<string>) => [...names].filter((name) => !text(type, name));
    expect(without(2, TOPIC_CONFIGS.keys())).toEqual([]);
    expect(without(32, GROUP_CONFIGS.keys())).toEqual([]);
    expect(without(16, CLIENT_METRICS_CONFIGS.keys())).toEqual([]);
    const inherited = new Set([
      ...[...TOPIC_CONFIGS.values(), ...GROUP_CONFIGS.values()].flatMap(({ brokerSynonyms }) =>
        brokerSynonyms.map((synonym) => synonym.name),
      ),
    ]);
    const obeyed = [...BROKER_CONFIGS.keys()].filter(
      (name) => hasEffect(name, '') && !inherited.has(name) && !name.startsWith('group.'),
    );
    expect(without(4, obeyed)).toEqual([]);
    expect(configText(4, 'log.segment.bytes', () => 'segment.bytes')).toContain('Default of segment.bytes');
  });
});
