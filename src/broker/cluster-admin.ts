/** Administration of the cluster: each change is decided by the controller, and durable before it is answered. */
import { promises as dns } from 'node:dns';
import { isIP } from 'node:net';
import type { ClusterMetadata, QuorumView } from '../metadata/cluster-metadata.ts';
import type { Refusal } from '../metadata/controller.ts';
import type { FeatureUpdate } from '../metadata/controller-features.ts';
import { type NodesDecision, unregisterBroker, unregisterController } from '../metadata/controller-nodes.ts';
import { alterQuotas, type QuotaAlteration, type QuotaResult } from '../metadata/controller-quotas.ts';
import {
  alterScram,
  type ScramDeletion,
  type ScramResult,
  type ScramUpsertion,
} from '../metadata/controller-scram.ts';
import { IP_ENTITY } from '../metadata/quota-keys.ts';
import type { Clock } from '../runtime/clock.ts';

/** As in Kafka, a quota may be given to a host by its name. */
async function resolves(name: string): Promise<boolean> {
  if (isIP(name) !== 0) return true;
  return dns.lookup(name).then(
    () => true,
    () => false,
  );
}

export class ClusterAdmin {
  readonly #metadata: ClusterMetadata;
  readonly #clock: Clock;

  constructor(metadata: ClusterMetadata, clock: Clock) {
    this.#metadata = metadata;
    this.#clock = clock;
  }

  get quorum(): QuorumView {
    return this.#metadata.quorum;
  }

  /** Throws OFFLINE, NO_SPACE, IO, as all changes do. */
  async alterQuotas(alterations: readonly QuotaAlteration[], validateOnly: boolean): Promise<QuotaResult[]> {
    const addresses = new Set<string>();
    for (const { entity } of alterations) {
      for (const { entityType, entityName } of entity) {
        if (entityType === IP_ENTITY && entityName && (await resolves(entityName))) addresses.add(entityName);
      }
    }
    const { results, records } = alterQuotas(this.#metadata.image, alterations, (name) =>
      addresses.has(name),
    );
    if (!validateOnly) this.#metadata.change(records, this.#clock.now());
    await this.#metadata.durable();
    return [...results];
  }

  async alterScram(
    deletions: readonly ScramDeletion[],
    upsertions: readonly ScramUpsertion[],
  ): Promise<ScramResult[]> {
    const { results, records } = alterScram(this.#metadata.image, deletions, upsertions);
    this.#metadata.change(records, this.#clock.now());
    await this.#metadata.durable();
    return [...results];
  }

  updateFeatures(updates: readonly FeatureUpdate[], validateOnly: boolean): Promise<Refusal | undefined> {
    return this.#metadata.updateFeatures(updates, this.#clock.now(), validateOnly);
  }

  unregisterBroker(brokerId: number): Promise<Refusal | undefined> {
    const { image, nodeId } = this.#metadata;
    return this.#change(unregisterBroker(image, nodeId, brokerId));
  }

  unregisterController(controllerId: number): Promise<Refusal | undefined> {
    const { image, nodeId } = this.#metadata;
    return this.#change(unregisterController(image, nodeId, controllerId));
  }

  async #change(decision: NodesDecision | Refusal): Promise<Refusal | undefined> {
    if (!decision.ok) return decision;
    this.#metadata.change(decision.records, this.#clock.now());
    await this.#metadata.durable();
    return undefined;
  }
}
