/** Users, access control, quotas and delegation tokens of the cluster image. */
import type { MetadataRecord } from './records.ts';

type DataOf<T extends MetadataRecord['type']> = Extract<MetadataRecord, { type: T }>['data'];

export type SecurityRecord = Extract<
  MetadataRecord,
  {
    type:
      | 'UserScramCredential'
      | 'RemoveUserScramCredential'
      | 'AccessControlEntry'
      | 'RemoveAccessControlEntry'
      | 'ClientQuota'
      | 'DelegationToken'
      | 'RemoveDelegationToken';
  }
>;

/** Parts of an entity by type ('user', 'client-id', 'ip'); null stands for the default of that type. */
export type QuotaEntity = DataOf<'ClientQuota'>['entity'];

export interface EntityQuotas {
  readonly entity: QuotaEntity;
  /** Quota key -> value. */
  readonly values: Map<string, number>;
}

/** The same text for entities with the same parts. */
export function quotaEntityKey(entity: QuotaEntity): string {
  const parts = entity.map((part) => [part.entityType, part.entityName]);
  return JSON.stringify(parts.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1)));
}

export class SecurityImage {
  /** User -> mechanism (1 SHA-256, 2 SHA-512) -> credential. */
  readonly scram = new Map<string, Map<number, DataOf<'UserScramCredential'>>>();
  /** By the entry's id. */
  readonly acls = new Map<string, DataOf<'AccessControlEntry'>>();
  /** By token id. */
  readonly delegationTokens = new Map<string, DataOf<'DelegationToken'>>();
  readonly #quotas = new Map<string, EntityQuotas>();

  quotas(): IterableIterator<EntityQuotas> {
    return this.#quotas.values();
  }

  /** Quota key -> value of one entity. */
  quotasOf(entity: QuotaEntity): ReadonlyMap<string, number> | undefined {
    return this.#quotas.get(quotaEntityKey(entity))?.values;
  }

  apply(record: SecurityRecord): void {
    switch (record.type) {
      case 'UserScramCredential': {
        const { name, mechanism } = record.data;
        const ofUser = this.scram.get(name) ?? new Map();
        this.scram.set(name, ofUser.set(mechanism, record.data));
        return;
      }
      case 'RemoveUserScramCredential': {
        const ofUser = this.scram.get(record.data.name);
        if (ofUser?.delete(record.data.mechanism) && ofUser.size === 0) this.scram.delete(record.data.name);
        return;
      }
      case 'AccessControlEntry':
        this.acls.set(record.data.id, record.data);
        return;
      case 'RemoveAccessControlEntry':
        this.acls.delete(record.data.id);
        return;
      case 'ClientQuota':
        this.#setQuota(record.data);
        return;
      case 'DelegationToken':
        this.delegationTokens.set(record.data.tokenId, record.data);
        return;
      case 'RemoveDelegationToken':
        this.delegationTokens.delete(record.data.tokenId);
        return;
    }
  }

  #setQuota({ entity, key, value, remove }: DataOf<'ClientQuota'>): void {
    const name = quotaEntityKey(entity);
    const quotas = this.#quotas.get(name);
    if (!remove) {
      if (quotas === undefined) this.#quotas.set(name, { entity, values: new Map([[key, value]]) });
      else quotas.values.set(key, value);
    } else if (quotas?.values.delete(key) && quotas.values.size === 0) {
      this.#quotas.delete(name);
    }
  }
}
