/**
 * `npm run bench [-- SUITE...] [--rounds N] [--seconds S]`: each suite compares with something run beside it, in rounds
 * that take turns. Prints a line per result, and last all results as one line of JSON.
 */
import { parseArgs } from 'node:util';
import { fetches } from './end-to-end/fetch.ts';
import { requests } from './micro/requests.ts';
import { type Comparison, line, type Scale } from './support.ts';

const SUITES: Record<string, (scale: Scale) => Promise<Comparison[]>> = {
  requests,
  fetch: fetches,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '1' },
  },
});
const names = positionals.length > 0 ? positionals : Object.keys(SUITES);
const unknown = names.filter((name) => !(name in SUITES));
if (unknown.length > 0)
  throw new Error(`no suite ${unknown.join(', ')}; there are: ${Object.keys(SUITES).join(', ')}`);

const results: Comparison[] = [];
for (const name of names) {
  const scale = { rounds: Number(values.rounds), seconds: Number(values.seconds) };
  for (const result of await SUITES[name]!(scale)) {
    console.log(line(result));
    results.push(result);
  }
}
console.log(JSON.stringify(results));
