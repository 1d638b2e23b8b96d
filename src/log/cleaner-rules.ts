/** Which log is to be cleaned next, and how far, by Kafka's rules: pure decisions over facts of segments. */
import type { TopicConfig } from '../config/topic-config.ts';
import type { SegmentFacts } from './log.ts';

export interface CleanableState {
  /** Ascending; the last one is active. */
  readonly segments: readonly SegmentFacts[];
  readonly logStartOffset: number;
  /** At most the high watermark. */
  readonly lastStableOffset: number;
  /** Where the last cleaning ended; undefined: there was none. */
  readonly cleanedTo: number | undefined;
}

export type CompactionRules = Pick<
  TopicConfig,
  'minCleanableDirtyRatio' | 'minCompactionLagMs' | 'maxCompactionLagMs'
>;

export interface Cleanable {
  readonly firstDirtyOffset: number;
  /** Closed segments that may be cleaned, clean ones and dirty ones. */
  readonly count: number;
  readonly dirtyBytes: number;
  /** Of what may be cleaned. */
  readonly dirtyRatio: number;
  /** By dirty ratio or by age. */
  readonly isDue: boolean;
}

/** Undefined when nothing is dirty. */
export function findCleanable(
  state: CleanableState,
  rules: CompactionRules,
  now: number,
): Cleanable | undefined {
  const { segments, logStartOffset, lastStableOffset, cleanedTo } = state;
  const active = segments[segments.length - 1]!.baseOffset;
  // A checkpoint outside the log is of another one, or what was clean was deleted since. What readers can't see is clean.
  const known = cleanedTo !== undefined && cleanedTo >= logStartOffset && cleanedTo <= active;
  const firstDirtyOffset = known ? cleanedTo : logStartOffset;
  let count = 0;
  let cleanBytes = 0;
  let dirtyBytes = 0;
  let oldest = Number.POSITIVE_INFINITY;
  for (; count + 1 < segments.length; count++) {
    const segment = segments[count]!;
    const end = segments[count + 1]!.baseOffset;
    if (end > lastStableOffset) break;
    if (end <= firstDirtyOffset) {
      cleanBytes += segment.sizeInBytes;
      continue;
    }
    const time = segment.largestTimestamp < 0 ? segment.lastModified : segment.largestTimestamp;
    if (rules.minCompactionLagMs > 0 && time > now - rules.minCompactionLagMs) break;
    dirtyBytes += segment.sizeInBytes;
    oldest = Math.min(oldest, time);
  }
  if (dirtyBytes === 0) return undefined;
  const dirtyRatio = dirtyBytes / (cleanBytes + dirtyBytes);
  const isOld = now - oldest > rules.maxCompactionLagMs;
  return {
    firstDirtyOffset,
    count,
    dirtyBytes,
    dirtyRatio,
    isDue: isOld || dirtyRatio > rules.minCleanableDirtyRatio,
  };
}
