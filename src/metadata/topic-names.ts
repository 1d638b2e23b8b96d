/** What a topic may be called. */

/** Longest name, so that `<topic>-<partition>.<uuid>-delete` still fits a file name. */
export const MAX_TOPIC_NAME_LENGTH = 249;

/** The metadata log's own topic; no client may make or delete it. */
export const CLUSTER_METADATA_TOPIC = '__cluster_metadata';

/** Topics of the coordinators. */
export const INTERNAL_TOPICS: ReadonlySet<string> = new Set([
  '__consumer_offsets',
  '__transaction_state',
  '__share_group_state',
]);

/** Undefined when the name may be used, else what is wrong with it. */
export function topicNameFault(name: string): string | undefined {
  if (name === '') return 'a topic name must not be empty';
  if (name === '.' || name === '..') return `"${name}" cannot be a topic name`;
  if (name.length > MAX_TOPIC_NAME_LENGTH) {
    return `the topic name has ${name.length} characters, at most ${MAX_TOPIC_NAME_LENGTH} are allowed: "${name.slice(0, 40)}..."`;
  }
  if (!/^[a-zA-Z0-9._-]+$/.test(name)) {
    return `topic name "${name}" may hold only ASCII letters, digits, '.', '_' and '-'`;
  }
  return undefined;
}
