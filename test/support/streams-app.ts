/** An instance of the word count of test/interop/clients/kafka-streams-4.4 as a child process. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { dirOf, STREAMS_APP } from './clients.ts';

const running = new Set<ChildProcessWithoutNullStreams>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export interface StreamsAppOptions {
  readonly address: string;
  readonly applicationId: string;
  readonly stateDir: string;
  /** What it says that others can ask it at; nobody does. */
  readonly endpointPort: number;
  /** More settings, as key=value. */
  readonly settings?: readonly string[];
}

export class StreamsApp {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<number | null>;
  #log = '';
  state = 'CREATED';

  constructor({ address, applicationId, stateDir, endpointPort, settings = [] }: StreamsAppOptions) {
    const [command, ...args] = STREAMS_APP.run;
    const given = [address, applicationId, stateDir, String(endpointPort), ...settings];
    this.#child = spawn(command!, [...args, ...given], { cwd: dirOf(STREAMS_APP) });
    running.add(this.#child);
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      if (line.startsWith('state ')) this.state = line.slice('state '.length);
    });
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString()).slice(-20_000);
    });
    this.#ended = new Promise((resolve) => {
      this.#child.on('close', (code) => {
        running.delete(this.#child);
        resolve(code);
      });
    });
  }

  /** The end of what it has logged. */
  get log(): string {
    return this.#log;
  }

  /** It leaves its group. */
  async close(): Promise<void> {
    this.#child.stdin.end();
    const code = await this.#ended;
    if (code !== 0) throw new Error(`the application ended with ${code}:\n${this.#log}`);
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
