/** Which partitions can be asked for at which endpoint of a streams group (interactive queries). */
import type { TopicsView } from './consumer-types.ts';
import type { StreamsMember } from './streams-member.ts';
import type { Role } from './streams-tasks.ts';
import type { ConfiguredTopology } from './streams-topology.ts';
import type { EndpointPartitions } from './streams-types.ts';

export function endpointPartitions(
  members: Iterable<StreamsMember>,
  { subtopologies }: ConfiguredTopology,
  topics: TopicsView,
): EndpointPartitions[] {
  const ofRole = ({ progress }: StreamsMember, role: Role) => {
    const byTopic = new Map<string, number[]>();
    for (const [id, tasks] of progress.assigned[role]) {
      for (const topic of subtopologies.get(id)?.inputs ?? []) {
        const topicId = topics.idOf(topic);
        const count = topicId === undefined ? 0 : topics.partitionCount(topicId);
        const partitions = [...tasks.keys()].filter((partition) => partition < count);
        if (partitions.length > 0) byTopic.set(topic, [...(byTopic.get(topic) ?? []), ...partitions]);
      }
    }
    return [...byTopic].map(([topic, partitions]) => ({
      topic,
      partitions: partitions.sort((a, b) => a - b),
    }));
  };
  const answers: EndpointPartitions[] = [];
  for (const member of members) {
    const { userEndpoint } = member.facts;
    if (userEndpoint === null) continue;
    answers.push({
      userEndpoint,
      activePartitions: ofRole(member, 'active'),
      standbyPartitions: ofRole(member, 'standby'),
    });
  }
  return answers;
}
