/** Files of golden vectors, and which check a line is for: told by its shape. */
import { type BatchesVector, type CorruptVector, checkBatches, checkCorrupt } from './batches.ts';
import { type ApiVector, checkApi, checkRecord, type RecordVector } from './codecs.ts';
import { readLines } from './lines.ts';

import { checkOutcome } from './outcomes.ts';

export { readLines } from './lines.ts';

export interface Result {
  passed: number;
  readonly failures: string[];
}

/** Throws what is wrong with a vector. `path` is the file that it came from: others lie beside it. */
type Check = (vector: never, path: string) => void | Promise<void>;

const CHECKS: readonly { readonly kind: string; readonly has: readonly string[]; readonly check: Check }[] = [
  { kind: 'API', has: ['api', 'hex'], check: (vector: ApiVector) => checkApi(vector) },
  { kind: 'batches', has: ['batches', 'hex'], check: (vector: BatchesVector) => checkBatches(vector) },
  { kind: 'corrupt', has: ['goodBatches', 'hex'], check: (vector: CorruptVector) => checkCorrupt(vector) },
  { kind: 'outcome', has: ['outcome', 'file'], check: checkOutcome },
  { kind: 'record', has: ['family', 'hex'], check: (vector: RecordVector) => checkRecord(vector) },
];

/** A name for a vector of any kind. */
function label(vector: Record<string, unknown>): string {
  const words = [
    vector.api ?? vector.family,
    vector.type === 'record' ? undefined : vector.type,
    vector.name,
  ];
  if (vector.version !== undefined) words.push(`v${vector.version}`);
  return words.filter((word) => word !== undefined).join(' ');
}

export async function checkLine(line: string, path: string): Promise<string | undefined> {
  let name = '';
  try {
    const vector = JSON.parse(line) as Record<string, unknown>;
    name = `${label(vector)}: `;
    const found = CHECKS.find(({ has }) => has.every((key) => key in vector));
    if (!found) return `${name}no check is known for a line with ${Object.keys(vector).join(', ')}`;
    await found.check(vector as never, path);
    return undefined;
  } catch (error) {
    return name + (error instanceof Error ? error.message : String(error));
  }
}

export async function checkFile(path: string): Promise<Result> {
  const result: Result = { passed: 0, failures: [] };
  const lines = readLines(path);
  for (let i = 0; i < lines.length; i++) {
    const failure = await checkLine(lines[i]!, path);
    if (failure === undefined) result.passed++;
    else result.failures.push(`${path}:${i + 1}: ${failure}`);
  }
  return result;
}
