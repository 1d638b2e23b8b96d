// npm run test:crash -- [--rounds N] [--seed S] [what vitest takes]: the crash tests, with N power cuts and N failing
// calls (test/crash/power.test.ts, call-faults.test.ts) instead of as many as the size says, and the seed that a failing run printed.
import { spawnSync } from 'node:child_process';

/** Options of ours, and the variables that the tests read. */
const OPTIONS = { '--rounds': 'BROADSHEET_ROUNDS', '--seed': 'BROADSHEET_SEED' };

const env = { ...process.env };
const rest = [];
const given = process.argv.slice(2);
while (given.length > 0) {
  const [name, joined] = given.shift().split(/=(.*)/s);
  if (OPTIONS[name] === undefined) {
    rest.push(joined === undefined ? name : `${name}=${joined}`);
    continue;
  }
  const value = joined ?? given.shift() ?? '';
  if (!/^\d{1,9}$/.test(value)) {
    console.error(`${name} takes a number, not ${JSON.stringify(value)}`);
    process.exit(2);
  }
  env[OPTIONS[name]] = value;
}
const { status } = spawnSync('npx', ['vitest', 'run', '--project', 'crash', ...rest], {
  stdio: 'inherit',
  env,
});
process.exit(status ?? 1);
