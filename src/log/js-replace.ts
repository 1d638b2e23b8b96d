/** Segments that leave a log of the JS engine, by retention or because a cleaned one takes their place. What
 * native/log_replace.cc is. */
import { BroadsheetError } from '../runtime/errors.ts';
import type { Folder } from './js-descriptors.ts';
import type { JsSegment } from './js-segment.ts';
import { indexOf } from './js-view.ts';

export const CLEANED_SUFFIX = '.cleaned';
const SWAP_SUFFIX = '.swap';
const DELETED_SUFFIX = '.deleted';

function refuse(message: string): never {
  throw new BroadsheetError('INVALID_ARGUMENT', message);
}

/** The segments that begin at `old`. Throws INVALID_ARGUMENT unless those are closed ones in a row that are flushed, and
 * `cleaned` begins with the first of them, ascends and stays below what follows. */
export function beginReplace(
  segments: readonly JsSegment[],
  flushedOffset: number,
  old: readonly number[],
  cleaned: readonly number[],
): JsSegment[] {
  const begins = old[0] ?? refuse('no segments to replace');
  const first = indexOf(segments, begins);
  const next = segments[first + old.length];
  if (next === undefined) refuse('the active segment is not replaced');
  const row = segments.slice(first, first + old.length);
  for (const [i, base] of old.entries())
    if (row[i]!.baseOffset !== base) refuse(`no segment begins at ${base} in that row`);
  if (next.baseOffset > flushedOffset) refuse('the segments are not flushed');
  if (cleaned.length === 0 && first !== 0) refuse('a hole in the log');
  for (const [i, base] of cleaned.entries()) {
    const fits = i === 0 ? base === begins : base > cleaned[i - 1]! && base < next.baseOffset;
    if (!fits) refuse('cleaned segments do not fit into the log');
  }
  return row;
}

/** Puts the files in their places; `left` gets the segments whose files were renamed. Gives the names of those files. */
export async function exchange(
  folder: Folder,
  old: readonly JsSegment[],
  cleaned: readonly JsSegment[],
  left: Set<JsSegment>,
): Promise<string[]> {
  for (const segment of cleaned) await segment.adopt();
  // The first one last: a start that finds it as .cleaned takes none of them.
  for (const segment of cleaned.toReversed()) segment.renameNow(CLEANED_SUFFIX, SWAP_SUFFIX);
  if (cleaned.length > 0) await folder.sync();
  const gone: string[] = [];
  for (const segment of old) {
    gone.push(...segment.renameNow('', DELETED_SUFFIX));
    left.add(segment);
  }
  for (const segment of cleaned) segment.renameNow(SWAP_SUFFIX, '');
  await folder.sync();
  return gone;
}
