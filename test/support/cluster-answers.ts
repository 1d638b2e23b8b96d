/** Answers to cluster administration, in a form that two brokers can share. */
import type { Connection } from '../../src/client/connection.ts';
import { errorName } from '../../src/protocol/errors.ts';
import type { Case } from './cluster-cases.ts';

const ZERO = 'AAAAAAAAAAAAAAAAAAAAAA';

/** Fields that hold what no two clusters share. */
const OWN: Readonly<Record<string, string>> = {
  clusterId: 'the cluster',
  replicaDirectoryId: 'a directory',
  host: 'a host',
};
/** Numbers that grow with time. */
const GROWING = new Set([
  'leaderEpoch',
  'logEndOffset',
  'highWatermark',
  'lastFetchTimestamp',
  'lastCaughtUpTimestamp',
]);

/** An answer in a form that two brokers can share: codes by name, no ids, no ports, and of texts only whether there is
 * one. */
export function normalise(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) {
    const items = value.map((each) => normalise(each));
    // Kafka keeps these in hash maps.
    if (['entries', 'results', 'values', 'entity', 'credentialInfos'].includes(key))
      items.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    return items;
  }
  if (typeof value === 'number') {
    if (key === 'port') return 'a port';
    if (key === 'errorCode') return errorName(value);
    if (GROWING.has(key)) return value >= 0 ? 'a number' : value;
    return Object.is(value, -0) ? 0 : Number.isFinite(value) ? value : String(value);
  }
  if (typeof value === 'string') {
    if (key === 'errorMessage') return value === '' || value === 'NONE' ? value : 'a text';
    return value === '' || value === ZERO ? value : (OWN[key] ?? value);
  }
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) =>
      each === undefined ? [] : [[name, normalise(each, name)]],
    ),
  );
}

/** The answer of each case, or what became of its connection. */
export async function answersOf(
  cases: readonly Case[],
  connect: () => Promise<Connection>,
): Promise<Map<string, unknown>> {
  const answers = new Map<string, unknown>();
  let connection = await connect();
  for (const { name, run } of cases) {
    if (answers.has(name)) throw new Error(`two cases have the name ${name}`);
    try {
      answers.set(name, await run(connection));
    } catch (error) {
      answers.set(name, { failed: (error as { code?: string }).code ?? String(error) });
    }
    if (connection.closed) connection = await connect();
  }
  connection.close();
  return answers;
}
