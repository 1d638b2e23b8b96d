/**
 * Where logs start, between two lives of a broker. No log tells it: a start that was lost would bring deleted records back. So it
 * is kept twice, in Kafka's `log-start-offset-checkpoint` and in a copy of our own, by topic id: an entry of the copy can't be
 * taken for a later topic's, whoever wrote Kafka's file last.
 */

import type { Logger } from '../runtime/logging.ts';
import { type CheckedOffset, LOG_START_FILE, OffsetCheckpoint, readOffsetCheckpoint } from './checkpoints.ts';
import type { Files } from './log.ts';

/** In place of names it has topic ids. */
export const LOG_START_COPY_FILE = `${LOG_START_FILE}.copy`;

export class LogStarts {
  readonly #main: OffsetCheckpoint;
  readonly #copy: OffsetCheckpoint;

  private constructor(main: OffsetCheckpoint, copy: OffsetCheckpoint) {
    this.#main = main;
    this.#copy = copy;
  }

  static async read(files: Files, dataDir: string, logger: Logger): Promise<LogStarts> {
    const [main, copy] = await Promise.all(
      [LOG_START_FILE, LOG_START_COPY_FILE].map((name) =>
        readOffsetCheckpoint(files, `${dataDir}/${name}`, logger),
      ),
    );
    return new LogStarts(main!, copy!.checked ? copy! : new OffsetCheckpoint());
  }

  /** The larger of the two: a log start never moves back. One that is not checked counts for nothing where it lies past the log's
   * end. */
  get(topic: string, topicId: string, partition: number): CheckedOffset {
    const main = this.#main.of(topic, topicId, partition);
    const copy = this.#copy.get(topicId, partition) ?? 0;
    return copy >= main.offset ? { offset: copy, checked: true } : main;
  }
}

/** Writes the copy; the caller then writes Kafka's file. */
export async function copyLogStarts(
  files: Files,
  dataDir: string,
  starts: Iterable<{ readonly topicId: string; readonly index: number; readonly offset: number }>,
): Promise<void> {
  const copy = new OffsetCheckpoint();
  for (const { topicId, index, offset } of starts) copy.set(topicId, index, offset);
  await files.writeAtomic(`${dataDir}/${LOG_START_COPY_FILE}`, copy.text());
}
