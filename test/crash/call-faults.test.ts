/** Every call about files fails once, each in a run of its own: with an error, after fewer bytes, by a signal. The broker goes on,
 * at most one partition goes offline, and what was acknowledged is there after a restart, and after a power cut. */
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../support/engines.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { failCalls } from './power/call-faults.ts';

/** Of both engines together, at full size all that there are; `npm run test:crash -- --rounds N` sets it. */
const ROUNDS = Number(process.env.BROADSHEET_ROUNDS ?? scaled(50, Number.POSITIVE_INFINITY));

describe.each(ENGINES)('calls of the $name engine that fail', (engine) => {
  it('cost nothing that was acknowledged', async () => {
    const seed = seedOf('call-faults', 20261202);
    const { runs, sites, refusals, dead, unreached, faults } = await failCalls(
      engine,
      seed,
      Math.ceil(ROUNDS / ENGINES.length),
    );
    process.stdout.write(
      `call-faults: ${engine.name} engine, ${runs} of ${sites} calls failed; ${refusals} requests refused, ` +
        `${dead} partitions offline, ${unreached} not reached\n`,
    );
    expect(unreached).toBeLessThanOrEqual(2 + runs / 50);
    expect(faults).toEqual([]);
  });
});
