/** Names of the files that belong to an offset: `%020d` and what they hold. */

/** The files of a segment. */
export const SEGMENT_SUFFIXES = ['.log', '.index', '.timeindex', '.txnindex'] as const;

export function segmentFileName(baseOffset: number, suffix: string): string {
  return String(baseOffset).padStart(20, '0') + suffix;
}

/** The offset before the first dot; undefined if the name does not begin with 20 digits and a dot, or is past 2^53. */
export function offsetOfFileName(name: string): number | undefined {
  if (!/^\d{20}\./.test(name)) return undefined;
  const offset = Number(name.slice(0, 20));
  return offset < 2 ** 53 ? offset : undefined;
}

/** Base offsets of the segments among a folder's file names, ascending. */
export function segmentBases(names: Iterable<string>): number[] {
  const bases: number[] = [];
  for (const name of names) {
    const base = offsetOfFileName(name);
    if (base !== undefined && name === segmentFileName(base, '.log')) bases.push(base);
  }
  return bases.sort((a, b) => a - b);
}
