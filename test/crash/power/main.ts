/** Power cuts in a process of their own: `main.ts ENGINE SEED CUTS` prints the outcome as a line of JSON. */
import { ENGINES } from '../../support/engines.ts';
import { powerCuts } from './rounds.ts';

const [name, seed, cuts] = process.argv.slice(2);
const engine = ENGINES.find((each) => each.name === name)!;
process.stdout.write(
  `${JSON.stringify(await powerCuts({ engine, seed: Number(seed), cuts: Number(cuts) }))}\n`,
);
