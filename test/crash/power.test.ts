/**
 * The power goes at random moments of a broker's life, also while it starts again: what had not been synced is dropped, torn or
 * kept in any order. The broker starts on whatever that leaves; what was acknowledged where acknowledged means on disk is there,
 * whole and once, and elsewhere there is a beginning of what was sent, and at least what was said to be on disk.
 *
 * Not covered: what a disk does against its promises (a sync that lies, a sector that rots).
 */
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../support/engines.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { powerCuts } from './power/rounds.ts';

/** Of both engines together; `npm run test:crash -- --rounds N` sets it. */
const ROUNDS = Number(process.env.BROADSHEET_ROUNDS ?? scaled(300, 5000));

describe.each(ENGINES)('power cuts of a broker with the $name engine', (engine) => {
  it('lose nothing that was promised', async () => {
    const seed = seedOf('power', 20261202);
    const outcome = await powerCuts({ engine, seed, cuts: Math.ceil(ROUNDS / ENGINES.length) });
    const { cuts, events, records, deletions, transactions, stops } = outcome;
    process.stdout.write(
      `power: ${engine.name} engine, ${cuts} cuts of ${events} file events; ${records} records acknowledged, ` +
        `${deletions} deletions of records, ${transactions} transactions, ${stops} clean stops\n`,
    );
    expect(outcome.faults).toEqual([]);
  });
});
