/** A broker in a process of its own, started by the command line, that a test may end before it is ready. */
import { type ChildProcess, spawn } from 'node:child_process';
import { CHOICE, CLI } from '../support/broker-process.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Started, perhaps not ready yet. `npm run build` makes what it runs. */
export class Victim {
  /** Resolves to `host:port` once it listens; undefined when it ended before. */
  readonly ready: Promise<string | undefined>;
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;
  #stdout = '';
  #stderr = '';

  constructor(dataDir: string, config: Readonly<Record<string, string>> = {}, port = 0) {
    const sets = Object.entries({ ...CHOICE, ...config }).flatMap(([key, value]) => [
      '--set',
      `${key}=${value}`,
    ]);
    const args = [CLI, 'start', '--data', dataDir, '--host', '127.0.0.1', '--port', String(port)];
    this.#child = spawn(process.execPath, [...args, '--log-level', 'warn', ...sets], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.exited = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.#child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.ready = new Promise((resolve) => {
      this.#child.stdout!.setEncoding('utf8').on('data', (text: string) => {
        this.#stdout += text;
        const address = /listens on (\S+)/.exec(this.#stdout)?.[1];
        if (address !== undefined) resolve(address);
      });
      void this.exited.then(() => resolve(undefined));
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** What it printed so far: log lines and errors. */
  get output(): string {
    return this.#stdout + this.#stderr;
  }

  /** Waits until it listens. Throws with what it printed when it ends before. */
  async address(): Promise<string> {
    const address = await this.ready;
    if (address === undefined) throw new Error(`the broker did not start: ${this.output}`);
    return address;
  }

  /** Resolves once it is gone. */
  signal(signal: NodeJS.Signals): Promise<Exit> {
    this.#child.kill(signal);
    return this.exited;
  }

  kill(): Promise<Exit> {
    return this.signal('SIGKILL');
  }
}
