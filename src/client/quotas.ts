/** Client quotas (KIP-546): limits of users, clients and addresses. */
import {
  readAlterClientQuotasResponse,
  writeAlterClientQuotasRequest,
} from '../protocol/generated/AlterClientQuotas.ts';
import { ApiKey } from '../protocol/generated/api-keys.ts';
import {
  readDescribeClientQuotasResponse,
  writeDescribeClientQuotasRequest,
} from '../protocol/generated/DescribeClientQuotas.ts';
import { api } from './apis.ts';
import type { Client } from './client.ts';
import { refuse } from './coordinator.ts';

const APIS = {
  alterClientQuotas: api(
    ApiKey.AlterClientQuotas,
    writeAlterClientQuotasRequest,
    readAlterClientQuotasResponse,
  ),
  describeClientQuotas: api(
    ApiKey.DescribeClientQuotas,
    writeDescribeClientQuotasRequest,
    readDescribeClientQuotasResponse,
  ),
} as const;

/** One part of whom a quota is for. */
export interface QuotaEntity {
  readonly entityType: 'user' | 'client-id' | 'ip';
  /** Null: the default of those that have none of their own. */
  readonly entityName: string | null;
}

const EXACT = 0;
const DEFAULT = 1;

/** The quotas of exactly this entity, by their keys. Throws BROKER_REFUSED. */
export async function describeQuotas(
  client: Client,
  entity: readonly QuotaEntity[],
): Promise<Map<string, number>> {
  const response = await client.request(APIS.describeClientQuotas, {
    components: entity.map(({ entityType, entityName }) => ({
      entityType,
      matchType: entityName === null ? DEFAULT : EXACT,
      match: entityName,
    })),
    strict: true,
  });
  refuse(response.errorCode, 'quotas', response.errorMessage);
  const values = (response.entries ?? []).flatMap((entry) => entry.values);
  return new Map(values.map(({ key, value }) => [key, value]));
}

/** Sets quotas, or takes back those that are null. Throws BROKER_REFUSED. */
export async function alterQuotas(
  client: Client,
  entity: readonly QuotaEntity[],
  changes: ReadonlyMap<string, number | null>,
  validateOnly = false,
): Promise<void> {
  const response = await client.request(
    APIS.alterClientQuotas,
    {
      entries: [
        {
          entity,
          ops: [...changes].map(([key, value]) => ({ key, value: value ?? 0, remove: value === null })),
        },
      ],
      validateOnly,
    },
    { to: await client.controller() },
  );
  for (const { errorCode, errorMessage } of response.entries) {
    refuse(errorCode, 'quotas were not changed', errorMessage);
  }
}
