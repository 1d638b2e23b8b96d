import { describe, expect, it } from 'vitest';
import { alterQuotas, type QuotaAlteration } from '../../src/metadata/controller-quotas.ts';
import { ClusterImage, type ImageRecord } from '../../src/metadata/image.ts';
import { findQuotas, type QuotaComponent } from '../../src/metadata/quota-filter.ts';
import type { QuotaEntity } from '../../src/metadata/security-image.ts';
import { KafkaError } from '../../src/protocol/errors.ts';

type Parts = Readonly<Record<string, string | null>>;

const entityOf = (parts: Parts): QuotaEntity =>
  Object.entries(parts).map(([entityType, entityName]) => ({ entityType, entityName }));

const alteration = (parts: Parts, ops: Readonly<Record<string, number | null>>): QuotaAlteration => ({
  entity: entityOf(parts),
  ops: Object.entries(ops).map(([key, value]) => ({ key, value: value ?? 0, remove: value === null })),
});

/** Alters, applies what was decided, and gives the results. */
function alter(image: ClusterImage, ...alterations: QuotaAlteration[]) {
  const decision = alterQuotas(image, alterations, (name) => name.startsWith('10.'));
  for (const record of decision.records) image.apply(record as ImageRecord);
  return decision;
}

const RATE = { producer_byte_rate: 1000 };

describe('alterQuotas', () => {
  it('sets, changes and removes values', () => {
    const image = new ClusterImage();
    expect(alter(image, alteration({ user: 'a' }, { ...RATE, consumer_byte_rate: 5 })).records).toHaveLength(
      2,
    );
    expect(alter(image, alteration({ user: 'a' }, RATE)).records).toEqual([]);
    alter(image, alteration({ user: 'a' }, { producer_byte_rate: null, request_percentage: 12.5 }));
    expect([...(image.security.quotasOf(entityOf({ user: 'a' })) ?? [])]).toEqual([
      ['consumer_byte_rate', 5],
      ['request_percentage', 12.5],
    ]);
    alter(
      image,
      alteration({ user: 'a' }, { consumer_byte_rate: null, request_percentage: null, bogus: null }),
    );
    expect(image.security.quotasOf(entityOf({ user: 'a' }))).toBeUndefined();
  });

  it('writes the parts of an entity in one order, and finds it in any', () => {
    const image = new ClusterImage();
    const { records } = alter(image, alteration({ user: 'a', 'client-id': null }, RATE));
    expect(records[0]?.data).toMatchObject({
      entity: [
        { entityType: 'client-id', entityName: null },
        { entityType: 'user', entityName: 'a' },
      ],
    });
    expect(alter(image, alteration({ 'client-id': null, user: 'a' }, RATE)).records).toEqual([]);
  });

  it.each([
    [{}, RATE],
    [{ planet: 'mars' }, RATE],
    [{ user: '' }, RATE],
    [{ user: 'a'.repeat(65_537) }, RATE],
    [{ user: 'a', ip: '10.0.0.1' }, RATE],
    [{ ip: 'nowhere' }, { connection_creation_rate: 1 }],
    [{ ip: '10.0.0.1' }, RATE],
    [{ user: 'a' }, { connection_creation_rate: 1 }],
    [{ user: 'a' }, { producer_byte_rate: 0 }],
    [{ user: 'a' }, { producer_byte_rate: 1.5 }],
    [{ user: 'a' }, { producer_byte_rate: 1e30 }],
    [{ user: 'a' }, { request_percentage: Number.NaN }],
    [{ ip: '10.0.0.1' }, { connection_creation_rate: 2 ** 31 }],
    [{ user: 'a' }, { ...RATE, bogus: 1 }],
  ] as readonly (readonly [Parts, Readonly<Record<string, number>>])[])('refuses %j %j', (parts, ops) => {
    const image = new ClusterImage();
    const { results, records } = alter(image, alteration(parts, ops), alteration({ user: 'good' }, RATE));
    expect(results.map(({ errorCode }) => errorCode)).toEqual([KafkaError.INVALID_REQUEST, KafkaError.NONE]);
    expect(results[0]?.message).not.toBeNull();
    expect(records).toHaveLength(1);
  });

  it('takes an entity that comes twice once, and says so', () => {
    const image = new ClusterImage();
    const { results, records } = alter(
      image,
      alteration({ user: 'a' }, RATE),
      alteration({ user: 'a' }, { consumer_byte_rate: 1 }),
    );
    expect(results.map(({ errorCode }) => errorCode)).toEqual([KafkaError.INVALID_REQUEST]);
    expect(records).toHaveLength(1);
  });

  it('refuses a key that comes twice', () => {
    const op = { key: 'producer_byte_rate', value: 1, remove: false };
    const { results, records } = alter(new ClusterImage(), {
      entity: entityOf({ user: 'a' }),
      ops: [op, op],
    });
    expect(results[0]?.errorCode).toBe(KafkaError.INVALID_REQUEST);
    expect(records).toEqual([]);
  });
});

describe('findQuotas', () => {
  const image = new ClusterImage();
  alter(
    image,
    alteration({ user: 'a' }, RATE),
    alteration({ user: null }, RATE),
    alteration({ user: 'a', 'client-id': 'c' }, RATE),
    alteration({ 'client-id': 'c' }, RATE),
    alteration({ ip: null }, { connection_creation_rate: 1 }),
  );
  const find = (strict: boolean, ...components: (readonly [string, number, (string | null)?])[]) => {
    const asked = components.map(
      ([entityType, matchType, match]): QuotaComponent => ({ entityType, matchType, match: match ?? null }),
    );
    const found = findQuotas(image.security.quotas(), asked, strict);
    if (!Array.isArray(found)) return found.errorCode;
    return found.map(({ entity }) =>
      entity.map(({ entityType, entityName }) => `${entityType}=${entityName}`).join(' '),
    );
  };

  it('matches exactly, by default and by type', () => {
    expect(find(false)).toHaveLength(5);
    expect(find(true)).toEqual([]);
    expect(find(false, ['user', 0, 'a'])).toEqual(['user=a', 'client-id=c user=a']);
    expect(find(true, ['user', 0, 'a'])).toEqual(['user=a']);
    expect(find(true, ['user', 1])).toEqual(['user=null']);
    expect(find(true, ['user', 2])).toEqual(['user=a', 'user=null']);
    expect(find(true, ['user', 0, 'a'], ['client-id', 2])).toEqual(['client-id=c user=a']);
    expect(find(false, ['ip', 0, '10.0.0.1'])).toEqual([]);
  });

  it('refuses what can match nothing', () => {
    expect(find(false, ['', 2])).toBe(KafkaError.INVALID_REQUEST);
    expect(find(false, ['planet', 2])).toBe(KafkaError.UNSUPPORTED_VERSION);
    expect(find(false, ['user', 0])).toBe(KafkaError.INVALID_REQUEST);
    expect(find(false, ['user', 1, 'a'])).toBe(KafkaError.INVALID_REQUEST);
    expect(find(false, ['user', 3])).toBe(KafkaError.INVALID_REQUEST);
    expect(find(false, ['user', 2], ['user', 1])).toBe(KafkaError.INVALID_REQUEST);
    expect(find(false, ['user', 2], ['ip', 2])).toBe(KafkaError.INVALID_REQUEST);
  });
});
