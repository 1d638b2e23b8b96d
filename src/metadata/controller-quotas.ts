/** Changes of client quotas, as pure functions. */
import { KafkaError } from '../protocol/errors.ts';
import type { ClusterImage } from './image.ts';
import { entityFault, IP_ENTITY, quotaFault } from './quota-keys.ts';
import type { MetadataRecordInput } from './records.ts';
import { type QuotaEntity, quotaEntityKey } from './security-image.ts';

/** The shape of AlterClientQuotasRequest's EntryData. */
export interface QuotaAlteration {
  readonly entity: QuotaEntity;
  readonly ops: readonly { readonly key: string; readonly value: number; readonly remove: boolean }[];
}

/** What became of one entity. */
export interface QuotaResult {
  readonly entity: QuotaEntity;
  /** Kafka error code. */
  readonly errorCode: number;
  readonly message: string | null;
}

export interface QuotasDecision {
  /** One for each entity. */
  readonly results: readonly QuotaResult[];
  readonly records: readonly MetadataRecordInput[];
}

/** Parts in the order of their types; of two with one type the last counts. */
function canonical(entity: QuotaEntity): QuotaEntity {
  const byType = new Map(entity.map((part) => [part.entityType, part]));
  return [...byType.values()].sort((a, b) => (a.entityType < b.entityType ? -1 : 1));
}

/**
 * Sets and removes values. An entity with a fault is left as it is, the others are changed. An entity that comes again
 * counts the first time only, and is told so.
 *
 * @param isAddress whether an ip entity's name is an address, or a host that has one
 */
export function alterQuotas(
  image: ClusterImage,
  alterations: readonly QuotaAlteration[],
  isAddress: (name: string) => boolean,
): QuotasDecision {
  const results = new Map<string, QuotaResult>();
  const records: MetadataRecordInput[] = [];
  for (const { entity: given, ops } of alterations) {
    const entity = canonical(given);
    const name = quotaEntityKey(entity);
    const changes = results.has(name) ? 'the entity is in the request more than once' : changesOf(ops);
    const fault =
      typeof changes === 'string'
        ? changes
        : (entityFault(entity) ?? addressFault(entity, isAddress) ?? valuesFault(entity, changes));
    results.set(name, {
      entity,
      errorCode: fault === undefined ? KafkaError.NONE : KafkaError.INVALID_REQUEST,
      message: fault ?? null,
    });
    if (fault !== undefined || typeof changes === 'string') continue;
    const current = image.security.quotasOf(entity);
    for (const [key, value] of changes) {
      if ((current?.get(key) ?? null) === value) continue;
      records.push({
        type: 'ClientQuota',
        version: 0,
        data: { entity: [...entity], key, value: value ?? 0, remove: value === null },
      });
    }
  }
  return { results: [...results.values()], records };
}

/** Key -> value, null to remove it; a text for a key that comes twice. */
function changesOf(ops: QuotaAlteration['ops']): Map<string, number | null> | string {
  const changes = new Map<string, number | null>();
  for (const { key, value, remove } of ops) {
    if (changes.has(key)) return `${key} is given more than once`;
    changes.set(key, remove ? null : value);
  }
  return changes;
}

function addressFault(entity: QuotaEntity, isAddress: (name: string) => boolean): string | undefined {
  for (const { entityType, entityName } of entity) {
    if (entityType === IP_ENTITY && entityName !== null && !isAddress(entityName)) {
      return `'${entityName}' is neither an address nor a host that has one`;
    }
  }
  return undefined;
}

function valuesFault(entity: QuotaEntity, changes: ReadonlyMap<string, number | null>): string | undefined {
  for (const [key, value] of changes) {
    const fault = value === null ? undefined : quotaFault(entity, key, value);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
