/** The same requests to two brokers: what each answered, with what may differ taken out. */
import type { Api } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { errorName } from '../../src/protocol/errors.ts';
import type { BroadsheetError } from '../../src/runtime/errors.ts';

const NO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';
const TOPIC_ID = /^[A-Za-z0-9_-]{22}$/;

/** One broker that is asked. */
export class WirePeer {
  readonly address: string;
  /** The directory that holds its partitions. */
  readonly dataDir: string;
  #client: Client | undefined;

  constructor(address: string, dataDir: string) {
    this.address = address;
    this.dataDir = dataDir;
  }

  async client(): Promise<Client> {
    if (this.#client === undefined || this.#client.connection.closed) {
      this.#client = await Client.connect(this.address, { timeoutMs: 20_000 });
    }
    return this.#client;
  }

  /** Sends one request; `{ failed }` for one that gets no answer. */
  async ask<Req, Res>(api: Api<Req, Res>, body: Req, version?: number): Promise<Res | { failed: string }> {
    const { connection } = await this.client();
    try {
      return await connection.request(api, body, version === undefined ? {} : { version });
    } catch (error) {
      return { failed: (error as BroadsheetError).code };
    }
  }

  async topicId(topic: string): Promise<string> {
    const { topics } = await (await this.client()).metadata([topic]);
    return topics[0]!.topicId;
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }
}

/** A step gives what is compared: mostly an answer. Lists of structs have an order only where it says so. */
export type WireStep = readonly [
  name: string,
  run: (peer: WirePeer) => Promise<unknown>,
  ordered?: 'ordered',
];

/** An answer without what two brokers may differ in: topic ids, error texts (only whether there is one counts) and, unless
 * it is ordered, the order of structs. Error codes get their names. */
export function normalised(answer: unknown, ordered = false, key = ''): unknown {
  if (typeof answer === 'number') return /errorCode$/i.test(key) ? errorName(answer) : answer;
  if (typeof answer === 'string') {
    if (/errorMessage$/i.test(key)) return answer === '' ? null : '<text>';
    return TOPIC_ID.test(answer) && answer !== NO_ID && /id$/i.test(key) ? '<id>' : answer;
  }
  if (Array.isArray(answer)) {
    const all = answer.map((each) => normalised(each, ordered));
    if (ordered || all.some((each) => typeof each !== 'object')) return all;
    return all
      .map((each) => [JSON.stringify(each), each] as const)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([, each]) => each);
  }
  if (answer === null || typeof answer !== 'object' || answer instanceof Uint8Array) return answer;
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => [name, normalised(value, ordered, name)]),
  );
}

/** Runs the steps on one broker, in order; the normalised answers by step. */
export async function runSteps(peer: WirePeer, steps: readonly WireStep[]): Promise<Map<string, unknown>> {
  const answers = new Map<string, unknown>();
  for (const [name, run, ordered] of steps) {
    if (answers.has(name)) throw new Error(`two steps are called ${name}`);
    answers.set(name, normalised(await run(peer), ordered === 'ordered'));
  }
  return answers;
}
