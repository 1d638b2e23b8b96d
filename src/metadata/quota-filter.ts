/** Which entities with quotas a client asks for (KIP-546). */
import { KafkaError } from '../protocol/errors.ts';
import type { Refusal } from './controller.ts';
import { IP_ENTITY } from './quota-keys.ts';
import type { EntityQuotas, QuotaEntity } from './security-image.ts';

/** DescribeClientQuotasRequest's MatchType. */
const MatchType = { EXACT: 0, DEFAULT: 1, ANY: 2 } as const;

/** The shape of DescribeClientQuotasRequest's ComponentData. */
export interface QuotaComponent {
  readonly entityType: string;
  readonly matchType: number;
  readonly match: string | null;
}

function refuse(errorCode: number, message: string): Refusal {
  return { ok: false, errorCode, message };
}

function componentFault({ entityType, matchType, match }: QuotaComponent): Refusal | undefined {
  if (entityType === '') return refuse(KafkaError.INVALID_REQUEST, 'the type of an entity is empty');
  if (matchType === MatchType.EXACT) {
    if (match === null) return refuse(KafkaError.INVALID_REQUEST, `an exact match of no ${entityType}`);
  } else if (matchType !== MatchType.DEFAULT && matchType !== MatchType.ANY) {
    return refuse(KafkaError.INVALID_REQUEST, `match type ${matchType} is not 0, 1 or 2`);
  } else if (match !== null) {
    return refuse(KafkaError.INVALID_REQUEST, `match type ${matchType} takes no name, got '${match}'`);
  }
  if (!['user', 'client-id', IP_ENTITY].includes(entityType)) {
    return refuse(KafkaError.UNSUPPORTED_VERSION, `'${entityType}' is not user, client-id or ip`);
  }
  return undefined;
}

function filterFault(components: readonly QuotaComponent[]): Refusal | undefined {
  const types = new Set<string>();
  for (const component of components) {
    const { entityType } = component;
    const fault = componentFault(component);
    if (fault !== undefined) return fault;
    if (types.has(entityType)) {
      return refuse(KafkaError.INVALID_REQUEST, `${entityType} is in the filter more than once`);
    }
    types.add(entityType);
  }
  if (types.has(IP_ENTITY) && types.size > 1) {
    return refuse(KafkaError.INVALID_REQUEST, 'an ip is asked for alone, without user and client-id');
  }
  return undefined;
}

function matches(entity: QuotaEntity, { entityType, matchType, match }: QuotaComponent): boolean {
  const part = entity.find((each) => each.entityType === entityType);
  if (part === undefined) return false;
  if (matchType === MatchType.ANY) return true;
  return part.entityName === (matchType === MatchType.DEFAULT ? null : match);
}

/** The entities that every component matches; strictly: that have no other part. */
export function findQuotas(
  all: Iterable<EntityQuotas>,
  components: readonly QuotaComponent[],
  strict: boolean,
): EntityQuotas[] | Refusal {
  const fault = filterFault(components);
  if (fault !== undefined) return fault;
  const found: EntityQuotas[] = [];
  for (const quotas of all) {
    if (strict && quotas.entity.length !== components.length) continue;
    if (components.every((component) => matches(quotas.entity, component))) found.push(quotas);
  }
  return found;
}
