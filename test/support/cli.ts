/** The command line as a child process: what it prints, and how it ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { CLI } from './broker-process.ts';

export interface CliResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** One run of `broadsheet ARGS`, with hands on it while it goes on. */
export class CliRun {
  readonly child: ChildProcess;
  readonly ended: Promise<CliResult>;
  readonly #stdout: Buffer[] = [];
  readonly #stderr: Buffer[] = [];

  constructor(args: readonly string[], cwd?: string) {
    this.child = spawn(process.execPath, [CLI, ...args], { cwd, stdio: ['pipe', 'pipe', 'pipe'] });
    running.add(this.child);
    this.child.stdout!.on('data', (chunk: Buffer) => this.#stdout.push(chunk));
    this.child.stderr!.on('data', (chunk: Buffer) => this.#stderr.push(chunk));
    // One that ends early closes its input; its code says why.
    this.child.stdin!.on('error', () => {});
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', (code, signal) => {
        running.delete(this.child);
        resolve({ code, signal, stdout: Buffer.concat(this.#stdout), stderr: this.stderr });
      });
    });
  }

  get stdout(): string {
    return Buffer.concat(this.#stdout).toString();
  }

  get stderr(): string {
    return Buffer.concat(this.#stderr).toString();
  }

  /** Resolves once stdout says so; throws with all that it printed if it ends before. */
  async until(said: (stdout: string) => boolean): Promise<void> {
    let over = false;
    void this.ended.then(() => {
      over = true;
    });
    while (!said(this.stdout)) {
      if (over) throw new Error(`it ended with: ${this.stdout}\n${this.stderr}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** Runs it to its end. */
export function cli(args: readonly string[], input: string | Uint8Array = ''): Promise<CliResult> {
  const run = new CliRun(args);
  run.child.stdin!.end(input);
  return run.ended;
}

/** The command line against one broker. */
export class CliOf {
  readonly address: string;

  constructor(address: string) {
    this.address = address;
  }

  /** Runs to its end, whatever that is. */
  run(args: readonly string[], input?: string | Uint8Array): Promise<CliResult> {
    return cli([...args, '-b', this.address], input);
  }

  start(args: readonly string[]): CliRun {
    return new CliRun([...args, '-b', this.address]);
  }

  /** Its stdout; throws unless it ends with code 0. */
  async text(args: readonly string[], input?: string | Uint8Array): Promise<string> {
    const result = await this.run(args, input);
    if (result.code !== 0) throw new Error(`${args.join(' ')} ended with ${result.code}: ${result.stderr}`);
    return result.stdout.toString();
  }

  /** What it prints as JSON. */
  async json<T>(args: readonly string[]): Promise<T> {
    return JSON.parse(await this.text([...args, '--json'])) as T;
  }

  /** The exit code and stderr of one that must fail. */
  async failure(args: readonly string[], input?: string): Promise<{ code: number | null; stderr: string }> {
    const { code, stderr } = await this.run(args, input);
    return { code, stderr };
  }
}
