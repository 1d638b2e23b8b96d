/** One workload again and again, each time with another call about files that fails. */
import { constants } from 'node:os';
import { join } from 'node:path';
import { LOG_START_FILE, OffsetCheckpoint, RECOVERY_POINT_FILE } from '../../../src/log/checkpoints.ts';
import type { EngineUnderTest } from '../../support/engines.ts';
import { Random } from '../../support/random.ts';
import { DiskModel } from './disk-model.ts';
import { FileJournal } from './file-journal.ts';
import { emptied, inMemory, warmUp } from './rounds.ts';
import { verify } from './verify.ts';
import { Workload } from './workload.ts';

const STEPS = 45;
const { EIO, ENOSPC, EINTR, EMFILE } = constants.errno;

type Call = Parameters<EngineUnderTest['setFault']>[0];

interface Fault {
  readonly call: Call;
  /** 0: the call moves at most `limit` bytes. */
  readonly errno: number;
  readonly limit: number;
}

/** What the kernel may say once, and the broker must not show anybody. */
const HARMLESS: readonly Fault[] = [
  ...['pread', 'pwritev', 'preadv2'].map((call) => ({ call: call as Call, errno: 0, limit: 7 })),
  ...['open', 'pread', 'preadv2', 'pwritev', 'fdatasync', 'fsync', 'ftruncate'].map((call) => ({
    call: call as Call,
    errno: EINTR,
    limit: 0,
  })),
];

const FAILING: readonly (readonly [Call, readonly number[]])[] = [
  ['open', [EIO, ENOSPC, EMFILE]],
  ['pread', [EIO]],
  ['preadv2', [EIO]],
  ['pwritev', [EIO, ENOSPC]],
  ['fdatasync', [EIO, ENOSPC]],
  ['fsync', [EIO]],
  ['ftruncate', [EIO]],
  ['fstat', [EIO]],
  ['stat', [EIO]],
  ['mkdir', [EIO, ENOSPC]],
  ['rename', [EIO, ENOSPC]],
  ['unlink', [EIO]],
  ['rmdir', [EIO]],
  ['list', [EIO]],
];

/** Calls that Node does not let the JS engine make, or that libuv makes again by itself. */
const NATIVE_ONLY: readonly string[] = ['preadv2'];

function faultsOf(engine: EngineUnderTest): readonly Fault[] {
  const isNative = engine.name === 'native';
  const failing = FAILING.flatMap(([call, errnos]) => errnos.map((errno) => ({ call, errno, limit: 0 })));
  return [...HARMLESS, ...failing].filter(
    ({ call, errno }) => isNative || (!NATIVE_ONLY.includes(call) && errno !== EINTR),
  );
}

export interface CallFaults {
  /** Calls that were made to fail, one in each run. */
  runs: number;
  /** Of how many that there are. */
  sites: number;
  refusals: number;
  dead: number;
  /** Calls that one run made and another did not: how many there are depends a little on threads and timers. */
  unreached: number;
  faults: string[];
}

/** Of that many lines about what went wrong no more runs are made. */
const ENOUGH = 50;

/** Fails `runs` calls, or all that there are, in an order chosen by the seed; leaves out the first `from` in that order. */
export async function failCalls(
  engine: EngineUnderTest,
  seed: number,
  runs: number,
  from = 0,
): Promise<CallFaults> {
  await warmUp(engine);
  const sites: (Fault & { readonly skip: number })[] = [];
  // The lesser of two: a run that another process slows down may make calls that no other one does.
  const counts = await countCalls(engine, seed);
  for (const [call, count] of await countCalls(engine, seed)) {
    counts.set(call, Math.min(count, counts.get(call)!));
  }
  for (const fault of faultsOf(engine)) {
    const count = counts.get(fault.call)!;
    for (let skip = 0; skip < count; skip++) sites.push({ ...fault, skip });
  }
  const random = new Random(seed);
  const outcome: CallFaults = {
    runs: 0,
    sites: sites.length,
    refusals: 0,
    dead: 0,
    unreached: 0,
    faults: [],
  };
  for (let drawn = 0; outcome.runs < runs && sites.length > 0 && outcome.faults.length < ENOUGH; drawn++) {
    const [site] = sites.splice(random.int(sites.length), 1);
    if (drawn < from) continue;
    await failCall(engine, seed, site!, outcome);
    outcome.runs++;
  }
  return outcome;
}

const FAR = 1e9;

/** How often each call is made. */
async function countCalls(engine: EngineUnderTest, seed: number): Promise<Map<Call, number>> {
  const calls = new Set(faultsOf(engine).map(({ call }) => call));
  const counts = new Map<Call, number>();
  await inMemory(async (root) => {
    for (const call of calls) engine.setFault(call, FAR, 1, EIO, 0);
    try {
      await run(engine, seed, emptied(join(root, 'data')));
      for (const call of calls) counts.set(call, FAR - engine.faultSkips(call));
    } finally {
      engine.clearFaults();
    }
  });
  return counts;
}

async function run(engine: EngineUnderTest, seed: number, dataDir: string) {
  const random = new Random(seed);
  const model = new DiskModel(dataDir);
  const journal = new FileJournal(dataDir, random);
  const workload = new Workload('synced', { dataDir, journal, random, make: engine.make, bearsErrors: true });
  try {
    await workload.run(STEPS);
  } finally {
    journal.end();
  }
  return { workload, model, events: journal.events };
}

async function failCall(
  engine: EngineUnderTest,
  seed: number,
  { call, errno, limit, skip }: Fault & { readonly skip: number },
  outcome: CallFaults,
): Promise<void> {
  await inMemory(async (root) => {
    const dataDir = emptied(join(root, 'data'));
    const how =
      Object.entries(constants.errno).find(([, number]) => number === errno)?.[0] ?? `${limit} bytes`;
    const name = `seed ${seed}, ${engine.name} engine: ${call} number ${skip}, ${how}`;
    engine.setFault(call, skip, 1, errno, limit);
    let result: Awaited<ReturnType<typeof run>>;
    const faults: string[] = [];
    try {
      result = await run(engine, seed, dataDir);
      if (engine.faultSkips(call) >= 0) outcome.unreached++;
    } catch (error) {
      outcome.faults.push(name, (error as Error).message);
      return;
    } finally {
      engine.clearFaults();
    }
    const { workload, model, events } = result;
    const { refusals, dead } = workload;
    outcome.refusals += refusals.length;
    outcome.dead += dead.length;
    const harmless = errno === EINTR || errno === 0;
    if (harmless && refusals.length > 0) faults.push('something was refused', ...refusals);
    if (dead.length > 1) faults.push(`more than one partition went offline: ${dead.join(', ')}`, ...refusals);
    model.play(events, events.length);
    const after = {
      ...{ workload, position: events.length, goesOn: true },
      recoveryPoints: OffsetCheckpoint.parse(model.durableText(RECOVERY_POINT_FILE) ?? ''),
      logStarts: OffsetCheckpoint.parse(model.durableText(LOG_START_FILE) ?? ''),
    };
    const random = new Random(seed + skip);
    const cut = emptied(join(root, 'cut'));
    model.write(cut, 'any', random);
    for (const left of [dataDir, cut]) {
      const journal = new FileJournal(left, random);
      try {
        const wrong = await verify({ ...after, dataDir: left, engine: engine.make(), journal });
        if (wrong.length > 0) faults.push(left === cut ? 'after a power cut:' : 'after a restart:', ...wrong);
      } finally {
        journal.end();
      }
    }
    if (faults.length === 0) return;
    outcome.faults.push(name, ...faults);
  });
}
