/** `npm run bench:engines [-- --small] [--rounds N] [--seconds S] [--out NAME]`: prints the table, writes NAME.json and NAME.svg. */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { compareEngines, type EngineScale, FULL, type Row, SMALL } from './engines.ts';
import { loopback, vethPair } from './network.ts';
import { chart, HEADER, tableLine } from './report.ts';

/** `scale` is for tests. */
export async function benchEngines(
  args: readonly string[],
  print: (text: string) => void,
  scale?: EngineScale,
): Promise<Row[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      small: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const base = scale ?? (values.small ? SMALL : FULL);
  const of = (text: string | undefined, otherwise: number) => (text === undefined ? otherwise : Number(text));
  const wanted = {
    ...base,
    rounds: of(values.rounds, base.rounds),
    seconds: of(values.seconds, base.seconds),
  };
  if (!(wanted.rounds >= 1 && wanted.seconds > 0))
    throw new RangeError('--rounds and --seconds are positive');
  print(HEADER);
  const rows: Row[] = [];
  const tell = (some: readonly Row[]) => {
    for (const row of some) print(tableLine(row));
  };
  rows.push(...(await compareEngines(loopback, wanted, tell)));
  const veth = vethPair();
  if (veth === undefined) print('no network namespaces here (root and iproute2): loopback alone');
  else {
    try {
      rows.push(...(await compareEngines(veth, wanted, tell)));
    } finally {
      veth.close();
    }
  }
  if (values.out !== undefined) {
    writeFileSync(`${values.out}.json`, `${JSON.stringify(rows, null, 1)}\n`);
    writeFileSync(`${values.out}.svg`, chart(rows));
  }
  return rows;
}
