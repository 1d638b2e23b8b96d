/**
 * Where logs start, between two lives of a broker. No log tells it: a start that was lost would bring deleted records back. So it
 * is kept twice, in Kafka's `log-start-offset-checkpoint` and in a copy of our own, by topic id: an entry of the copy can't be
 * taken for a later topic's, whoever wrote Kafka's file last.
 *
 * The copy has every log that does not begin at 0. So it also tells of a log whose first segments are missing, as long as Apache
 * Kafka, which takes them for deleted, was not there since: it writes its high watermarks before it deletes anything.
 */

import type { Logger } from '../runtime/logging.ts';
import {
  type CheckedOffset,
  HIGH_WATERMARK_FILE,
  LOG_START_FILE,
  OffsetCheckpoint,
  readOffsetCheckpoint,
} from './checkpoints.ts';
import type { Files } from './log.ts';

/** In place of names it has topic ids. */
export const LOG_START_COPY_FILE = `${LOG_START_FILE}.copy`;

/** In the copy, in place of a topic's id: that it has all logs. */
const ALL = 'all';

export interface LogStart extends CheckedOffset {
  /** Whether the log began there, not merely there at least. */
  readonly exact: boolean;
}

export class LogStarts {
  readonly #main: OffsetCheckpoint;
  readonly #copy: OffsetCheckpoint;
  readonly #isComplete: boolean;

  private constructor(main: OffsetCheckpoint, copy: OffsetCheckpoint, watermarks: OffsetCheckpoint) {
    this.#main = main;
    this.#copy = copy.checked ? copy : new OffsetCheckpoint();
    this.#isComplete = main.checked && watermarks.checked && this.#copy.get(ALL, 0) !== undefined;
  }

  static async read(files: Files, dataDir: string, logger: Logger): Promise<LogStarts> {
    const [main, copy, watermarks] = await Promise.all(
      [LOG_START_FILE, LOG_START_COPY_FILE, HIGH_WATERMARK_FILE].map((name) =>
        readOffsetCheckpoint(files, `${dataDir}/${name}`, logger),
      ),
    );
    return new LogStarts(main!, copy!, watermarks!);
  }

  /** The larger of the two: a log start never moves back. One that is not checked counts for nothing where it lies past the log's
   * end. */
  get(topic: string, topicId: string, partition: number): LogStart {
    const main = this.#main.of(topic, topicId, partition);
    const copy = this.#copy.get(topicId, partition) ?? 0;
    const exact = this.#isComplete;
    return copy >= main.offset ? { offset: copy, checked: true, exact } : { ...main, exact };
  }
}

/** Writes the copy; the caller then writes Kafka's file. With `isComplete` all logs that are not given begin at 0. */
export async function copyLogStarts(
  files: Files,
  dataDir: string,
  starts: Iterable<{ readonly topicId: string; readonly index: number; readonly offset: number }>,
  isComplete: boolean,
): Promise<void> {
  const copy = new OffsetCheckpoint();
  if (isComplete) copy.set(ALL, 0, 0);
  for (const { topicId, index, offset } of starts) copy.set(topicId, index, offset);
  await files.writeAtomic(`${dataDir}/${LOG_START_COPY_FILE}`, copy.text());
}
