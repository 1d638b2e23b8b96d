/** Brokers in a process of their own that says what it holds of the machine, for tests and benchmarks of budgets. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { CreateBrokerOptions } from '../../src/index.ts';

export interface ProbedOptions extends Pick<CreateBrokerOptions, 'engine' | 'transport' | 'config'> {
  /** Parent of their data directories. */
  readonly dir: string;
  readonly brokers: number;
}

/** Bytes, counts and milliseconds. */
export interface Snapshot {
  readonly rss: number;
  readonly heapUsed: number;
  readonly arrayBuffers: number;
  readonly external: number;
  /** Of the heap, since the last snapshot. */
  readonly allocated: number;
  readonly descriptors: number;
  readonly mappings: number;
  /** Since the last snapshot: how late the event loop was, and how long collections of garbage took. */
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly gc: { readonly count: number; readonly p99: number; readonly max: number };
}

export interface ProbedStart extends Partial<ProbedOptions> {
  readonly dir: string;
  /** Run by bash in front of it, such as `ulimit -n 1024`. */
  readonly shell?: string;
  /** For Node. */
  readonly node?: readonly string[];
}

const TYPESCRIPT = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href];
const SCRIPT = fileURLToPath(new URL('probed-process.ts', import.meta.url));

export class Probed {
  readonly pid: number;
  readonly addresses: readonly string[];
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #log: string[];

  private constructor(
    child: ChildProcess,
    lines: AsyncIterator<string>,
    log: string[],
    said: { pid: number; addresses: string[] },
  ) {
    this.#child = child;
    this.#lines = lines;
    this.#log = log;
    this.pid = said.pid;
    this.addresses = said.addresses;
  }

  /** Rejects with what the process said when a broker does not start. */
  static async start({ shell = ':', node = [], ...options }: ProbedStart): Promise<Probed> {
    const given: ProbedOptions = { brokers: 1, ...options };
    const command = [process.execPath, ...node, ...TYPESCRIPT, SCRIPT, JSON.stringify(given)];
    const child = spawn('bash', ['-c', `${shell}; exec "$0" "$@"`, ...command], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const log: string[] = [];
    child.stderr!.on('data', (chunk: Buffer) => log.push(chunk.toString()));
    const closed = once(child, 'close');
    const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    const first = await lines.next();
    if (first.done) {
      await closed;
      throw new Error(log.join(''));
    }
    return new Probed(child, lines, log, JSON.parse(first.value) as { pid: number; addresses: string[] });
  }

  get address(): string {
    return this.addresses[0]!;
  }

  /** What it logged of warnings and errors. */
  get log(): string {
    return this.#log.join('');
  }

  /** With gc, after a collection of garbage: needs --expose-gc. */
  async probe(how: '' | 'gc' = ''): Promise<Snapshot> {
    this.#child.stdin!.write(`${how}\n`);
    return JSON.parse((await this.#lines.next()).value as string) as Snapshot;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, 'close');
    this.#child.stdin!.write('close\n');
    const [code] = (await closed) as [number | null];
    if (code !== 0) throw new Error(`the brokers' process ended with ${code}:\n${this.log}`);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await closed;
  }
}
