/** One workload, and many power cuts of it. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOG_START_FILE, OffsetCheckpoint, RECOVERY_POINT_FILE } from '../../../src/log/checkpoints.ts';
import type { EngineUnderTest } from '../../support/engines.ts';
import { Random } from '../../support/random.ts';
import { DiskModel, type Survival } from './disk-model.ts';
import { FileJournal } from './file-journal.ts';
import { verify } from './verify.ts';
import { type Mode, Workload } from './workload.ts';

/** Power cuts of one workload. */
const CUTS = 100;
const STEPS = 120;
const SURVIVALS: readonly Survival[] = ['all', 'none', 'until', 'any', 'any'];

export interface Outcome {
  cuts: number;
  events: number;
  records: number;
  deletions: number;
  transactions: number;
  stops: number;
  /** Of the first cut after which something was wrong. */
  faults: string[];
}

export interface RoundsOptions {
  readonly engine: EngineUnderTest;
  readonly seed: number;
  readonly cuts: number;
}

/** Runs workloads until there were so many cuts, or something is wrong. */
export async function powerCuts(options: RoundsOptions): Promise<Outcome> {
  const { seed, cuts } = options;
  const outcome: Outcome = {
    cuts: 0,
    events: 0,
    records: 0,
    deletions: 0,
    transactions: 0,
    stops: 0,
    faults: [],
  };
  await warmUp(options.engine);
  for (let round = 0; outcome.cuts < cuts && outcome.faults.length === 0; round++) {
    await oneRound(options, seed + round, Math.min(CUTS, cuts - outcome.cuts), outcome);
  }
  return outcome;
}

export function emptied(folder: string): string {
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder);
  return folder;
}

/** Gives a folder, in memory where there is such a place, that is removed afterwards. */
export async function inMemory(work: (root: string) => Promise<void>): Promise<void> {
  const root = fs.mkdtempSync(join(fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'broadsheet-power-'));
  try {
    await work(root);
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
}

/** What is loaded when it is first needed takes its own time: one run that is thrown away, so that the others are those of their
 * seeds. */
export async function warmUp(engine: EngineUnderTest): Promise<void> {
  await inMemory(async (dataDir) => {
    const random = new Random(1);
    const journal = new FileJournal(dataDir, random);
    try {
      await new Workload('synced', { dataDir, journal, random, make: engine.make }).run(STEPS);
    } finally {
      journal.end();
    }
  });
}

async function oneRound(
  { engine }: RoundsOptions,
  seed: number,
  cuts: number,
  outcome: Outcome,
): Promise<void> {
  const random = new Random(seed);
  const mode: Mode = random.int(2) === 0 ? 'synced' : 'mixed';
  await inMemory(async (root) => {
    const dataDir = emptied(join(root, 'data'));
    const model = new DiskModel(dataDir);
    const journal = new FileJournal(dataDir, random);
    const workload = new Workload(mode, { dataDir, journal, random, make: engine.make });
    try {
      await workload.run(STEPS);
    } finally {
      journal.end();
    }
    const { events } = journal;
    outcome.events += events.length;
    outcome.records += workload.done.records;
    outcome.deletions += workload.done.deletions;
    outcome.transactions += workload.transactions.count;
    outcome.stops += workload.done.stops;
    const all = new Random(seed);
    const positions = Array.from({ length: CUTS }, () => all.int(events.length + 1)).slice(0, cuts);
    for (const position of positions.sort((a, b) => a - b)) {
      model.play(events, position);
      // Each cut has its own, so that it is the same whatever was tried before.
      const own = new Random(seed * 100_003 + position);
      const survival = own.pick(SURVIVALS);
      const faults = await afterCut(engine, model, workload, position, survival, own, root);
      outcome.cuts++;
      if (faults.length === 0) continue;
      const where = `seed ${seed}, ${engine.name} engine, ${mode}: cut at event ${position} of ${events.length}, with ${survival}`;
      outcome.faults.push(where, ...faults);
      return;
    }
  });
}

/** Sometimes the power goes again while the broker starts. */
async function afterCut(
  engine: EngineUnderTest,
  model: DiskModel,
  workload: Workload,
  position: number,
  survival: Survival,
  random: Random,
  root: string,
): Promise<string[]> {
  let dataDir = emptied(join(root, 'cut'));
  model.write(dataDir, survival, random);
  const twice = random.int(4) === 0;
  const then = {
    ...{ workload, position },
    recoveryPoints: OffsetCheckpoint.parse(model.durableText(RECOVERY_POINT_FILE) ?? ''),
    logStarts: OffsetCheckpoint.parse(model.durableText(LOG_START_FILE) ?? ''),
  };
  const again = twice ? new DiskModel(dataDir) : undefined;
  const journal = new FileJournal(dataDir, random);
  let faults: string[];
  try {
    faults = await verify({ ...then, dataDir, engine: engine.make(), journal, goesOn: !twice });
  } finally {
    journal.end();
  }
  if (again === undefined || faults.length > 0) return faults;
  const { events } = journal;
  const second = random.int(events.length + 1);
  again.play(events, second);
  dataDir = emptied(join(root, 'again'));
  const left = random.pick(SURVIVALS);
  again.write(dataDir, left, random);
  const last = new FileJournal(dataDir, random);
  try {
    faults = await verify({ ...then, dataDir, engine: engine.make(), journal: last, goesOn: true });
  } finally {
    last.end();
  }
  if (faults.length > 0)
    faults.unshift(`cut again at event ${second} of ${events.length} of the next life, with ${left}`);
  return faults;
}
