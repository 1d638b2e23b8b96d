/** All that a cluster image says, as plain values to compare. */
import type { ClusterImage } from '../../src/metadata/image.ts';

export function describeImage(image: ClusterImage): object {
  const configs: [number, string, [string, string][]][] = [];
  for (const type of image.configuredTypes()) {
    for (const name of image.configuredResources(type)) {
      configs.push([type, name, [...image.configs(type, name)].sort()]);
    }
  }
  const { brokers, controllers, features, security, nextProducerId, partitionCount, metadataVersion } = image;
  return structuredClone({
    topics: new Map([...image.topicsByName].sort(([a], [b]) => (a < b ? -1 : 1))),
    ids: [...image.topicsById.keys()].sort(),
    configs: configs.sort((a, b) => (`${a[0]} ${a[1]}` < `${b[0]} ${b[1]}` ? -1 : 1)),
    quotas: [...security.quotas()].map(({ entity, values }) => [JSON.stringify(entity), [...values]]).sort(),
    scram: security.scram,
    acls: security.acls,
    delegationTokens: security.delegationTokens,
    ...{ brokers, controllers, features, nextProducerId, partitionCount, metadataVersion },
  });
}
