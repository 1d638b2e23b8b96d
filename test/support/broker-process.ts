/** This broker as a child process, started by its own command, so that a test can end it as an operator or a crash would. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

export interface BrokerProcessOptions {
  readonly config?: Readonly<Record<string, string>>;
  /** Default: a free one. */
  readonly port?: number;
}

/** BROADSHEET_ENGINE and BROADSHEET_TRANSPORT choose for every broker whose test does not: any suite runs on each combination. */
export const CHOICE = Object.fromEntries(
  Object.entries({
    engine: process.env.BROADSHEET_ENGINE,
    transport: process.env.BROADSHEET_TRANSPORT,
  }).filter((entry): entry is [string, string] => entry[1] !== undefined),
);

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class BrokerProcess {
  readonly address: string;
  readonly #child: ChildProcess;
  readonly #output: string[];
  readonly #ended: Promise<number | null>;

  private constructor(child: ChildProcess, address: string, output: string[], ended: Promise<number | null>) {
    this.#child = child;
    this.address = address;
    this.#output = output;
    this.#ended = ended;
  }

  /** Starts a broker on the directory; resolves once it says where it listens, throws with its output if it ends first. */
  static start(dataDir: string, options: BrokerProcessOptions = {}): Promise<BrokerProcess> {
    const settings = Object.entries({ ...CHOICE, ...options.config }).flatMap(([key, value]) => [
      '--set',
      `${key}=${value}`,
    ]);
    const listen = ['--host', '127.0.0.1', '--port', String(options.port ?? 0)];
    const child = spawn(process.execPath, [CLI, 'start', '--data', dataDir, ...listen, ...settings], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.add(child);
    const output: string[] = [];
    const ended = new Promise<number | null>((resolve) => {
      child.on('close', (code) => {
        running.delete(child);
        resolve(code);
      });
    });
    return new Promise((resolve, reject) => {
      const collect = (chunk: Buffer) => {
        output.push(chunk.toString());
        const address = /broadsheet listens on ([^\s,]+)/.exec(output.join(''))?.[1];
        if (address === undefined) return;
        child.stdout?.off('data', collect);
        child.stdout?.on('data', (more: Buffer) => output.push(more.toString()));
        resolve(new BrokerProcess(child, address, output, ended));
      };
      child.stdout?.on('data', collect);
      child.stderr?.on('data', (chunk: Buffer) => output.push(chunk.toString()));
      void ended.then((code) => reject(new Error(`the broker ended with ${code}:\n${output.join('')}`)));
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** What it has printed so far, stdout and stderr. */
  get output(): string {
    return this.#output.join('');
  }

  /** SIGTERM; throws if it does not end with code 0. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    const code = await this.#ended;
    if (code !== 0) throw new Error(`the broker ended with ${code}:\n${this.output}`);
  }

  /** SIGKILL; resolves once it is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
