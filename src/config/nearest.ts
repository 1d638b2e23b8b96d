/** The known configuration key that is most like an unknown one. */
import { BROKER_CONFIGS } from './definitions.ts';

/** Edit distance (Levenshtein). */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row.push(
        Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)),
      );
    }
    previous = row;
  }
  return previous[b.length]!;
}

/** `: did you mean ...?` for an unknown name, or ''. */
export function suggestion(name: string, known?: Iterable<string>): string {
  const nearest = nearestConfig(name, known);
  return nearest === undefined ? '' : `: did you mean ${nearest}?`;
}

/** The one of `known` (default: the broker's keys) that is most like `name`, or undefined when none is close. */
export function nearestConfig(
  name: string,
  known: Iterable<string> = BROKER_CONFIGS.keys(),
): string | undefined {
  let best: string | undefined;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= least) continue;
    const d = distance(name, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}
