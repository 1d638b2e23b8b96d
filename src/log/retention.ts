/**
 * Which segments a log may let go of, by Kafka's rules: a pure decision over the facts of its segments, its config and the time.
 *
 * One rule is stricter than Kafka's: what counts as a segment's time is never later than when its file was last written to,
 * so that one record with a timestamp years ahead does not hold back all that came before it.
 */
import type { TopicConfig } from '../config/topic-config.ts';
import type { SegmentFacts } from './log.ts';

export type RetentionRules = Pick<TopicConfig, 'cleanupPolicy' | 'retentionMs' | 'retentionBytes'>;

export interface RetentionState {
  /** Ascending; the last one is active. */
  readonly segments: readonly SegmentFacts[];
  readonly logStartOffset: number;
  readonly logEndOffset: number;
  /** Nothing at or past it is deleted. */
  readonly highWatermark: number;
  /** What the log rolls by: segment.ms less its jitter. */
  readonly segmentMs: number;
}

export interface RetentionPlan {
  /** The active segment is to be closed: its time is over, or its records go. */
  readonly roll: boolean;
  /** Segments that end at or below go, and the log starts here or later. */
  readonly deleteBelow: number;
}

/** What a segment's age is counted from, ms: the largest timestamp of its records, or when it was last written to, where that
 * is earlier or no record has a time. */
export function segmentTime({ largestTimestamp, lastModified }: SegmentFacts): number {
  return largestTimestamp < 0 ? lastModified : Math.min(largestTimestamp, lastModified);
}

/** Whether the active segment has to be closed though nothing is appended. Records that were old when they came (an import) count
 * from when they came: else every check would close a segment. */
export function isRollDue(active: SegmentFacts, segmentMs: number, now: number): boolean {
  const { beganAt, lastModified } = active;
  if (beganAt < 0) return false;
  const cameLate = lastModified <= now && lastModified - beganAt > segmentMs;
  return now - (cameLate ? lastModified : beganAt) > segmentMs;
}

export function planRetention(state: RetentionState, rules: RetentionRules, now: number): RetentionPlan {
  const { segments, logStartOffset, logEndOffset, highWatermark, segmentMs } = state;
  const active = segments[segments.length - 1]!;
  const endOf = (index: number) => segments[index + 1]?.baseOffset ?? logEndOffset;
  const mayGo = (index: number) =>
    endOf(index) <= highWatermark && (index < segments.length - 1 || active.sizeInBytes > 0);

  let gone = 0;
  // What DeleteRecords took from readers; of compacted logs too.
  while (gone + 1 < segments.length && endOf(gone) <= logStartOffset) gone++;
  if (rules.cleanupPolicy.includes('delete')) {
    const { retentionMs, retentionBytes } = rules;
    let bytes = 0;
    for (const segment of segments.slice(gone)) bytes += segment.sizeInBytes;
    while (retentionBytes >= 0 && gone < segments.length && mayGo(gone)) {
      bytes -= segments[gone]!.sizeInBytes;
      if (bytes < retentionBytes) break;
      gone++;
    }
    const expired = (segment: SegmentFacts) => retentionMs >= 0 && now - segmentTime(segment) > retentionMs;
    while (gone < segments.length && mayGo(gone) && expired(segments[gone]!)) gone++;
  }
  return {
    roll: gone === segments.length || isRollDue(active, segmentMs, now),
    deleteBelow: gone === segments.length ? logEndOffset : segments[gone]!.baseOffset,
  };
}

/**
 * Which closed segments of several logs go so that together these lose `excess` bytes, or as much as they can: the oldest first,
 * whichever log they are of. A segment counts as no older than those before it in its log. Gives for each log below which offset
 * its segments go; 0: none.
 */
export function planCap(
  logs: readonly Pick<RetentionState, 'segments' | 'highWatermark'>[],
  excess: number,
): number[] {
  const candidates: { log: number; time: number; bytes: number; end: number }[] = [];
  for (const [log, { segments, highWatermark }] of logs.entries()) {
    let time = Number.NEGATIVE_INFINITY;
    for (const [i, segment] of segments.slice(0, -1).entries()) {
      const end = segments[i + 1]!.baseOffset;
      if (end > highWatermark) break;
      time = Math.max(time, segmentTime(segment));
      candidates.push({ log, time, bytes: segment.sizeInBytes, end });
    }
  }
  const deleteBelow = logs.map(() => 0);
  let left = excess;
  // Those of one log stay in their order.
  for (const { log, bytes, end } of candidates.sort((a, b) => a.time - b.time)) {
    if (left <= 0) break;
    left -= bytes;
    deleteBelow[log] = end;
  }
  return deleteBelow;
}
