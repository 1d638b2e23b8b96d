/** What the coordinator reads of a consumer's subscription: the topics. The rest is between the members. */
import { Reader } from '../protocol/reader.ts';
import { BroadsheetError } from '../runtime/errors.ts';

/** Topics of the members' subscriptions together (int16 version, then an array of strings); undefined if one of them
 * does not parse. */
export function subscribedTopics(subscriptions: readonly Uint8Array[]): ReadonlySet<string> | undefined {
  const topics = new Set<string>();
  try {
    for (const bytes of subscriptions) {
      const reader = new Reader(bytes);
      if (reader.int16() < 0) return undefined;
      const count = reader.int32();
      for (let i = 0; i < count; i++) topics.add(reader.string());
    }
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'MALFORMED') return undefined;
    throw error;
  }
  return topics;
}
