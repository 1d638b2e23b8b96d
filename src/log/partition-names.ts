/** Names of partition folders: `<topic>-<index>`, and what one is renamed to when it goes. */

const MAX_NAME_BYTES = 255;
const PARTITION_NAME = /^([a-zA-Z0-9._-]{1,249})-(\d{1,10})$/;
const SUFFIXED_NAME = /^.+-\d{1,10}\.[0-9a-f]{32}-(delete|stray|future)$/;

export interface PartitionName {
  readonly topic: string;
  readonly index: number;
}

export function partitionFolder(topic: string, index: number): string {
  return `${topic}-${index}`;
}

/** Undefined if the name is no partition's. */
export function parsePartitionFolder(name: string): PartitionName | undefined {
  if (SUFFIXED_NAME.test(name)) return undefined;
  const match = PARTITION_NAME.exec(name);
  if (match === null) return undefined;
  const [, topic, digits] = match as unknown as [string, string, string];
  const index = Number(digits);
  // `t-007` would not be found again under its own name.
  if (index > 2 ** 31 - 1 || String(index) !== digits) return undefined;
  return { topic, index };
}

export function suffixOf(name: string): 'delete' | 'stray' | 'future' | undefined {
  return SUFFIXED_NAME.exec(name)?.[1] as 'delete' | 'stray' | 'future' | undefined;
}

/** The name under which a folder waits for its removal (`delete`) or is set aside (`stray`). `uuid` may have dashes. Topic
 * names are cut so that the whole fits a folder's name. */
export function suffixedFolder(
  topic: string,
  index: number,
  uuid: string,
  suffix: 'delete' | 'stray',
): string {
  const end = `-${index}.${uuid.replaceAll('-', '')}-${suffix}`;
  return topic.slice(0, MAX_NAME_BYTES - end.length) + end;
}
