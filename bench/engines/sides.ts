/** The servers that are compared: three ways of this broker, and the least that a C program can do. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TransportStats } from '../../src/broker/transport.ts';
import { compile } from '../support.ts';
import type { Network } from './network.ts';

export const SIDES = ['native sendfile', 'native copy', 'JS engine', 'bare C loop'] as const;
export type SideName = (typeof SIDES)[number];

const SETTINGS: Readonly<Record<Exclude<SideName, 'bare C loop'>, readonly string[]>> = {
  'native sendfile': ['engine=native', 'fetch.path=sendfile'],
  'native copy': ['engine=native', 'fetch.path=copy'],
  'JS engine': ['engine=js'],
};

/** A program that prints its port first. */
class Running {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #ended: Promise<never>;
  port = 0;

  constructor(network: Network, program: string, args: readonly string[]) {
    const [first, rest] = network.command('server', program, args);
    this.#child = spawn(first, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout! });
    this.#ended = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`a server ended with ${code}`);
    });
    // It ends when it is told to.
    this.#ended.catch(() => {});
  }

  async line(): Promise<string> {
    const [text] = (await Promise.race([once(this.#lines, 'line'), this.#ended])) as [string];
    return text;
  }

  ask(command: string): Promise<string> {
    this.#child.stdin!.write(`${command}\n`);
    return this.line();
  }

  get pid(): number {
    return this.#child.pid!;
  }

  async stop(kill: boolean): Promise<void> {
    const gone = once(this.#child, 'exit');
    if (kill) this.#child.kill();
    else this.#child.stdin!.end();
    await gone;
  }
}

/** One of our brokers. */
export class BrokerSide {
  readonly #running: Running;

  private constructor(running: Running) {
    this.#running = running;
  }

  static async start(
    network: Network,
    dir: string,
    name: Exclude<SideName, 'bare C loop'>,
  ): Promise<BrokerSide> {
    const data = join(dir, name.replace(/ /g, '-'));
    mkdirSync(data, { recursive: true });
    const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
    const args = [
      '--import',
      file('../../scripts/typescript.js'),
      file('server.ts'),
      data,
      ...SETTINGS[name],
    ];
    const running = new Running(network, process.execPath, args);
    running.port = Number(await running.line());
    return new BrokerSide(running);
  }

  get port(): number {
    return this.#running.port;
  }

  get pid(): number {
    return this.#running.pid;
  }

  async makeTopic(name: string): Promise<void> {
    await this.#running.ask(`topic ${name}`);
  }

  async stats(): Promise<TransportStats> {
    return JSON.parse(await this.#running.ask('stats')) as TransportStats;
  }

  stop(): Promise<void> {
    return this.#running.stop(false);
  }
}

/** bench/native/bare-broker.c while `use` runs. */
export async function withBare<T>(
  network: Network,
  args: readonly (string | number)[],
  use: (target: { port: number; pid: number }) => Promise<T>,
): Promise<T> {
  const running = new Running(network, compile('bare-broker'), args.map(String));
  running.port = Number(await running.line());
  try {
    return await use(running);
  } finally {
    await running.stop(true);
  }
}
