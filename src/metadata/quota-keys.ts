/** Quotas: which keys an entity may have, and which values. Kafka's names and bounds. */
import type { QuotaEntity } from './security-image.ts';

const ENTITY_TYPES: ReadonlySet<string> = new Set(['user', 'client-id', 'ip']);
export const IP_ENTITY = 'ip';

type ValueType = 'long' | 'int' | 'double';

const CLIENT_KEYS: ReadonlyMap<string, ValueType> = new Map([
  ['producer_byte_rate', 'long'],
  ['consumer_byte_rate', 'long'],
  ['request_percentage', 'double'],
  ['controller_mutation_rate', 'double'],
]);
const IP_KEYS: ReadonlyMap<string, ValueType> = new Map([['connection_creation_rate', 'int']]);

/** How far a value of a whole type may be from a whole number. */
const WHOLE_WITHIN = 1e-6;
const LARGEST: Readonly<Record<ValueType, number>> = {
  int: 2 ** 31 - 1,
  long: 2 ** 63,
  double: Number.MAX_VALUE,
};
/** Most characters of a name: Kafka reads no metadata batch above 8 MiB. */
const MAX_NAME_LENGTH = 65_536;

/** Why no quota can belong to this entity; undefined if one can. Whether an address is one is not looked at. */
export function entityFault(entity: QuotaEntity): string | undefined {
  if (entity.length === 0) return 'no entity is given';
  for (const { entityType, entityName } of entity) {
    if (!ENTITY_TYPES.has(entityType)) return `'${entityType}' is not user, client-id or ip`;
    if (entityName === '') return `the ${entityType} is empty, null stands for the default`;
    if (entityName !== null && entityName.length > MAX_NAME_LENGTH) {
      return `the ${entityType} has ${entityName.length} characters, the limit is ${MAX_NAME_LENGTH}`;
    }
  }
  if (entity.length > 1 && entity.some(({ entityType }) => entityType === IP_ENTITY)) {
    return 'an ip stands alone, without user and client-id';
  }
  return undefined;
}

/** Why an entity cannot have this value; undefined if it can. */
export function quotaFault(entity: QuotaEntity, key: string, value: number): string | undefined {
  const keys = entity[0]?.entityType === IP_ENTITY ? IP_KEYS : CLIENT_KEYS;
  const type = keys.get(key);
  if (type === undefined) return `'${key}' is none of ${[...keys.keys()].join(', ')}`;
  if (!Number.isFinite(value)) return `${key} is not a finite number`;
  if (value <= 0) return `${key} must be above 0, got ${value}`;
  if (value > LARGEST[type]) return `${key} is at most ${LARGEST[type]}, got ${value}`;
  if (type !== 'double' && Math.abs(value - Math.round(value)) > WHOLE_WITHIN) {
    return `${key} must be a whole number, got ${value}`;
  }
  return undefined;
}
