/** What AlterConfigs and IncrementalAlterConfigs have in common. */
import type { ResourceChange } from '../../metadata/controller-configs.ts';
import { KafkaError, kafkaCodeOf } from '../../protocol/errors.ts';
import type { BrokerContext } from '../context.ts';

export interface AlterAnswer {
  readonly errorCode: number;
  readonly errorMessage: string | null;
  readonly resourceType: number;
  readonly resourceName: string;
}

/** Changes each resource and says what became of it; one that comes twice is refused. */
export async function alterResources(
  resources: readonly ResourceChange[],
  validateOnly: boolean,
  broker: BrokerContext,
): Promise<AlterAnswer[]> {
  const keyOf = ({ type, name }: ResourceChange) => `${type} ${name}`;
  const counts = new Map<string, number>();
  for (const resource of resources) counts.set(keyOf(resource), (counts.get(keyOf(resource)) ?? 0) + 1);
  const repeated = (resource: ResourceChange) => counts.get(keyOf(resource)) !== 1;
  const single = resources.filter((resource) => !repeated(resource));
  const answer = ({ type, name }: ResourceChange, errorCode: number, errorMessage: string | null) => ({
    errorCode,
    errorMessage,
    resourceType: type,
    resourceName: name,
  });
  const twice = (resource: ResourceChange) =>
    answer(resource, KafkaError.INVALID_REQUEST, 'Each resource must appear at most once.');
  try {
    const refusals = await broker.configs.alter(single, validateOnly);
    return resources.map((resource) => {
      if (repeated(resource)) return twice(resource);
      const refusal = refusals[single.indexOf(resource)];
      return answer(resource, refusal?.errorCode ?? KafkaError.NONE, refusal?.message ?? null);
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    broker.log.error({ reason: message }, 'a change of configs failed');
    return resources.map((resource) =>
      repeated(resource) ? twice(resource) : answer(resource, kafkaCodeOf(error), message),
    );
  }
}
