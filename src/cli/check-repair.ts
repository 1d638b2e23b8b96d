/** What `broadsheet check --repair` does about the faults that were found: the least that lets the next start make the rest again. */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { LEADER_EPOCH_FILE, type OffsetCheckpoint } from '../log/checkpoints.ts';
import type { Files } from '../log/log.ts';
import { type Fault, segmentBaseOffset } from '../log/partition-check.ts';
import { parsePartitionFolder } from '../log/partition-names.ts';
import { snapshotOffset } from '../log/producer-snapshot.ts';
import { repairSegment } from '../log/segment-repair.ts';
import { METADATA_FOLDER } from '../metadata/kraft-files.ts';

export interface RepairState {
  readonly files: Files;
  /** A data directory, or one partition's folder. */
  readonly dir: string;
  readonly clean: boolean;
  readonly recoveryPoints: OffsetCheckpoint | undefined;
}

/** Gives what was done, a line for each file. */
export async function repair(state: RepairState, faults: readonly Fault[]): Promise<Fault[]> {
  const done: Fault[] = [];
  for (const file of new Set(faults.map((fault) => fault.file))) {
    const what = await repairFile(state, file);
    if (what !== undefined) done.push({ file, what });
  }
  return done;
}

async function repairFile(state: RepairState, file: string): Promise<string | undefined> {
  const name = basename(file);
  const isMadeAgain =
    /\.(index|timeindex)$/.test(name) ||
    snapshotOffset(name) !== undefined ||
    name === LEADER_EPOCH_FILE ||
    name.endsWith('-offset-checkpoint');
  if (isMadeAgain) {
    await state.files.remove(join(state.dir, file));
    return 'is removed: the next start makes it again';
  }
  const isMetadata = basename(dirname(join(state.dir, file))) === METADATA_FOLDER;
  if (isMetadata && name.endsWith('.log')) return undefined;
  const base = name.endsWith('.log') ? segmentBaseOffset(name) : undefined;
  if (base === undefined) return undefined;
  const folder = join(state.dir, dirname(file));
  const names = await readdir(folder);
  const bases = names
    .filter((each) => each.endsWith('.log'))
    .map((each) => segmentBaseOffset(each))
    .filter((each) => each !== undefined);
  const next = Math.min(...bases.filter((each) => each > base));
  if (!state.clean && !isBelowRecoveryPoint(state, basename(folder), next)) {
    return 'is left as it is: the next start cuts it at the damage and keeps what it cuts';
  }
  const repaired = await repairSegment(state.files, folder, base, next, knownEnd(state, folder, names));
  if (repaired === undefined) return undefined;
  return `${repaired.bytes} damaged bytes are moved to quarantine; ${repaired.offsets} offsets have no record now`;
}

/** Where a log ended, by what the last stop wrote beside it: a recovery point whose checksum fits, the newest producer snapshot. */
function knownEnd({ recoveryPoints }: RepairState, folder: string, names: readonly string[]): number {
  const parsed = parsePartitionFolder(basename(folder));
  const isKnown = parsed !== undefined && recoveryPoints?.checked;
  const flushed = isKnown ? recoveryPoints.get(parsed.topic, parsed.index) : undefined;
  return Math.max(flushed ?? 0, ...names.map((name) => snapshotOffset(name) ?? 0));
}

function isBelowRecoveryPoint({ recoveryPoints }: RepairState, folder: string, next: number): boolean {
  const parsed = parsePartitionFolder(folder);
  return parsed !== undefined && next <= (recoveryPoints?.get(parsed.topic, parsed.index) ?? 0);
}
