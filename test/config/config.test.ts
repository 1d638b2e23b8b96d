import { describe, expect, it } from 'vitest';
import { BrokerConfig, parseListeners } from '../../src/config/broker-config.ts';
import { BROKER_CONFIGS, parseConfig, TOPIC_CONFIGS } from '../../src/config/definitions.ts';
import { nearestConfig } from '../../src/config/nearest.ts';
import { parseProperties } from '../../src/config/properties.ts';
import { topicConfig, validateTopicConfig } from '../../src/config/topic-config.ts';

const broker = new BrokerConfig(new Map());
const topic = (entries: Record<string, string>) =>
  validateTopicConfig(new Map(Object.entries(entries)), broker);

describe('definitions', () => {
  it('has a default that its own validator accepts, for every key', () => {
    for (const definition of [...BROKER_CONFIGS.values(), ...TOPIC_CONFIGS.values()]) {
      if (definition.default === null || definition.valid?.startsWith('non-empty')) continue;
      expect(() => parseConfig(definition, definition.default!), definition.name).not.toThrow();
    }
  });

  it('refuses values outside of type and bounds, and names key and value', () => {
    expect(() => topic({ 'segment.bytes': '1000' })).toThrow(
      'Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576',
    );
    expect(() => topic({ 'segment.bytes': '2147483648' })).toThrow('Not a number of type INT');
    expect(() => topic({ 'retention.ms': '9223372036854775808' })).toThrow('LONG');
    expect(() => topic({ 'retention.ms': 'seven days' })).toThrow('LONG');
    expect(() => topic({ 'min.cleanable.dirty.ratio': '1.5' })).toThrow('no more than 1');
    expect(() => topic({ 'cleanup.policy': 'compact,shred' })).toThrow('one of: compact, delete');
    expect(() => topic({ 'cleanup.policy': 'compact,compact' })).toThrow('duplicate');
    expect(() => topic({ preallocate: 'yes' })).toThrow('true or false');
    expect(() => topic({ 'no.such.key': '1' })).toThrow('Unknown topic config name: no.such.key');
    expect(() => topic({ 'min.compaction.lag.ms': '10', 'max.compaction.lag.ms': '5' })).toThrow('conflict');
    expect(() => topic({ 'compression.gzip.level': '0' })).toThrow('compression.gzip.level');
    expect(() => topic({ 'compression.gzip.level': '-1' })).not.toThrow();
  });
});

describe('topic config', () => {
  it('has exact numbers only, also where the largest of 64 bits stands for never', () => {
    for (const key of ['segment.ms', 'segment.jitter.ms', 'flush.ms', 'flush.messages', 'retention.ms']) {
      const values = Object.values(topic({ [key]: '9223372036854775807' }));
      expect(values).toContain(Number.MAX_SAFE_INTEGER);
      for (const value of values)
        if (typeof value === 'number') expect(value).toBeLessThanOrEqual(Number.MAX_SAFE_INTEGER);
    }
  });

  it('takes its own value, then the broker synonym with its unit, then the default', () => {
    expect(topicConfig(new Map(), broker).retentionMs).toBe(604_800_000);
    const hours = new BrokerConfig(new Map([['log.retention.hours', '2']]));
    expect(topicConfig(new Map(), hours).retentionMs).toBe(7_200_000);
    const both = new BrokerConfig(
      new Map([
        ['log.retention.hours', '2'],
        ['log.retention.ms', '5'],
      ]),
    );
    expect(topicConfig(new Map(), both).retentionMs).toBe(5);
    expect(topicConfig(new Map([['retention.ms', '-1']]), both).retentionMs).toBe(-1);
    expect(topicConfig(new Map([['flush.messages', '9223372036854775807']]), broker).flushMessages).toBe(
      Number.MAX_SAFE_INTEGER,
    );
  });
});

describe('broker config', () => {
  it('warns of unknown keys with the nearest known one', () => {
    const config = new BrokerConfig(
      new Map([
        ['log.segment.byte', '1048576'],
        ['zzz', '1'],
      ]),
    );
    expect(config.warnings).toEqual([
      'unknown configuration log.segment.byte: did you mean log.segment.bytes?',
      'unknown configuration zzz',
    ]);
    expect(nearestConfig('num.partition')).toBe('num.partitions');
  });

  it('reads listeners, leaves out the controller one of a Kafka file, and refuses what it cannot serve', () => {
    expect(parseListeners('listeners', ['PLAINTEXT://:9092', 'X://[::1]:0'])).toEqual([
      { name: 'PLAINTEXT', host: '', port: 9092 },
      { name: 'X', host: '::1', port: 0 },
    ]);
    const kraft = new BrokerConfig(
      new Map([
        ['listeners', 'PLAINTEXT://:9092,CONTROLLER://:9093'],
        ['controller.listener.names', 'CONTROLLER'],
        ['listener.security.protocol.map', 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL'],
      ]),
    );
    expect(kraft.listeners.map((l) => l.name)).toEqual(['PLAINTEXT']);
    expect(() => new BrokerConfig(new Map([['listeners', 'SSL://:9093']]))).toThrow(
      'PLAINTEXT listeners only',
    );
    expect(() => new BrokerConfig(new Map([['listeners', 'nonsense']]))).toThrow('NAME://host:port');
    expect(() => new BrokerConfig(new Map([['listeners', 'A://:1,A://:2']]))).toThrow('twice');
    expect(() => new BrokerConfig(new Map([['advertised.listeners', 'OTHER://h:1']]))).toThrow('no listener');
  });

  it('keeps its data in one directory', () => {
    expect(broker.dataDir).toBe('./data');
    expect(new BrokerConfig(new Map([['log.dir', '/x']])).dataDir).toBe('/x');
    expect(() => new BrokerConfig(new Map([['log.dirs', '/x,/y']])).dataDir).toThrow('2 directories');
  });
});

describe('properties', () => {
  it('reads comments, separators, continuations and escapes', () => {
    const text =
      '# c\n! c\na=1\n b : 2\nc 3\nd=x\\\n   y\ne\\=f=g\\th\nempty=\nu=\\u00e9\nwin=C:\\\\dir\r\na=4';
    expect(Object.fromEntries(parseProperties(text))).toEqual({
      a: '4',
      b: '2',
      c: '3',
      d: 'xy',
      'e=f': 'g\th',
      empty: '',
      u: 'é',
      win: 'C:\\dir',
    });
    expect(() => parseProperties('a=\\u12')).toThrow('malformed');
  });
});
