/** A client of any language as a child process that speaks the line protocol (test/interop/clients/README.md). */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type ClientKind, dirOf, isInstalled } from './clients.ts';

export type GroupProtocol = 'classic' | 'cooperative' | 'consumer';
export type Codec = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
export type Isolation = 'read_committed' | 'read_uncommitted';
export type Feature =
  | 'idempotent'
  | 'transactions'
  | 'transactions-consumer'
  | 'static'
  | 'static-consumer'
  | 'regex'
  | 'regex-later';

/** What a driver says of its client when it starts. */
export interface Ready {
  readonly client: string;
  readonly codecs: readonly Codec[];
  readonly protocols: readonly GroupProtocol[];
  readonly features: readonly Feature[];
}

export interface DriverRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ProduceCommand {
  readonly topic: string;
  readonly count: number;
  readonly prefix: string;
  /** Bytes of each value, at least. */
  readonly size?: number;
  readonly codec?: Codec;
  readonly idempotent?: boolean;
  /** One record in ten has no key, another no value. */
  readonly nulls?: boolean;
}

export interface JoinCommand {
  readonly group: string;
  readonly topics?: readonly string[];
  readonly pattern?: string;
  readonly protocol: GroupProtocol;
  readonly instanceId?: string;
  readonly sessionTimeoutMs: number;
  /** Default: read_uncommitted. */
  readonly isolation?: Isolation;
}

export interface SendCommand {
  readonly topic: string;
  readonly count: number;
  readonly prefix: string;
  /** Record n goes to partition n % partitions. */
  readonly partitions: number;
  readonly size?: number;
}

/** What a client says when it can't do what it was told. */
export class ClientFailure extends Error {
  /** In the client's own words. */
  readonly answer: string;

  constructor(command: string, answer: string, story: string) {
    super(`${command}: ${answer}\n${story}`);
    this.answer = answer;
  }
}

type Message =
  | ({ readonly event: 'ready' } & Ready)
  | { readonly event: 'assignment'; readonly partitions: readonly string[] }
  | ({ readonly event: 'record' } & DriverRecord)
  | { readonly event: 'error'; readonly message: string }
  | { readonly reply: number; readonly result?: Readonly<Record<string, number>>; readonly error?: string };

const running = new Set<ChildProcessWithoutNullStreams>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class ClientDriver {
  readonly kind: ClientKind;
  ready: Ready | undefined;
  /** Each assignment that the member was told of: all that it held then, as `topic-partition`, sorted. */
  readonly assignments: string[][] = [];
  readonly records: DriverRecord[] = [];
  /** What the application was told. */
  readonly errors: string[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, (message: Message & { reply: number }) => void>();
  #stderr = '';
  #ended: string | undefined;
  #commands = 0;

  private constructor(kind: ClientKind, address: string) {
    this.kind = kind;
    const [command, ...args] = kind.run;
    const dir = dirOf(kind);
    const file = command!.includes('/') && !command!.startsWith('/') ? join(dir, command!) : command!;
    const child = spawn(file, [...args, address], { cwd: dir, stdio: 'pipe' });
    this.#child = child;
    running.add(child);
    child.stdin.on('error', () => {});
    child.stderr.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-10_000);
    });
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(line));
    child.on('error', (error) => {
      this.#ended = String(error);
    });
    child.on('exit', (code, signal) => {
      running.delete(child);
      this.#ended ??= `ended with ${code ?? signal}`;
      for (const [reply, answer] of this.#waiting) answer({ reply, error: this.#ended });
      this.#waiting.clear();
    });
  }

  static async start(kind: ClientKind, address: string): Promise<ClientDriver> {
    if (!isInstalled(kind)) throw new Error(`${kind.name} is not installed: npm run clients installs it`);
    const driver = new ClientDriver(kind, address);
    await driver.until('its first line', () => driver.ready !== undefined);
    return driver;
  }

  #hear(line: string): void {
    if (!line.startsWith('{')) {
      this.#stderr += `${line}\n`;
      return;
    }
    const message = JSON.parse(line) as Message;
    if ('reply' in message) {
      this.#waiting.get(message.reply)?.(message);
      this.#waiting.delete(message.reply);
    } else if (message.event === 'record') this.records.push(message);
    else if (message.event === 'assignment') this.assignments.push([...message.partitions].sort());
    else if (message.event === 'error') this.errors.push(message.message);
    else this.ready = message;
  }

  get assignment(): readonly string[] {
    return this.assignments.at(-1) ?? [];
  }

  /** All that is known, for a message of failure. */
  get story(): string {
    const assignments = this.assignments.map((partitions) => `[${partitions.join(' ')}]`).join(' then ');
    return (
      `${this.ready?.client ?? this.kind.name}: assignments ${assignments || 'none'}; ${this.records.length} records; ` +
      `errors [${this.errors.join('; ')}]; ${this.#ended ?? 'it runs'}\n${this.#stderr}`
    );
  }

  async #ask(cmd: string, args: object = {}): Promise<Readonly<Record<string, number>>> {
    if (this.#ended !== undefined) throw new Error(`${cmd}: ${this.story}`);
    const id = ++this.#commands;
    const answer = await new Promise<Message & { reply: number }>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin.write(`${JSON.stringify({ id, cmd, ...args })}\n`);
    });
    if ('error' in answer && answer.error !== undefined) {
      throw new ClientFailure(`${cmd} ${JSON.stringify(args)}`, answer.error, this.story);
    }
    return ('result' in answer && answer.result) || {};
  }

  /** Resolves when all are acknowledged. */
  async produce(command: ProduceCommand): Promise<void> {
    await this.#ask('produce', command);
  }

  async join(command: JoinCommand): Promise<void> {
    await this.#ask('join', command);
  }

  /** Commits the position after the last record of each partition that it holds. */
  async commit(): Promise<void> {
    await this.#ask('commit');
  }

  /** Committed offsets of the partitions that it holds, by `topic-partition`, as its client tells them. */
  committed(topics: readonly string[]): Promise<Readonly<Record<string, number>>> {
    return this.#ask('committed', { topics });
  }

  /** Closes the consumer as an application that ends does. */
  async leave(): Promise<void> {
    await this.#ask('leave');
  }

  /** Makes a producer with a transactional id, in the place of one that it has, and takes the id over. */
  async init(transactionalId: string, timeoutMs: number): Promise<void> {
    await this.#ask('init', { transactionalId, timeoutMs });
  }

  async begin(): Promise<void> {
    await this.#ask('begin');
  }

  /** Sends in the open transaction; resolves when all are acknowledged. */
  async send(command: SendCommand): Promise<void> {
    await this.#ask('send', command);
  }

  /** Sends on, in the open transaction, what the member was told of and is in no committed one, with its positions: at least
   * `count` records, which are waited for. */
  async transform(topic: string, count: number): Promise<void> {
    await this.#ask('transform', { topic, count });
  }

  async end(commit: boolean): Promise<void> {
    await this.#ask('end', { commit });
  }

  /** SIGKILL: nobody is told. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.until('its end', () => this.#ended !== undefined, true);
  }

  /** Waits for something that events bring about; throws with all that is known when it stays away. */
  async until(what: string, condition: () => boolean, orEnd = false): Promise<void> {
    for (let turns = 0; !condition(); turns++) {
      if (turns > 4_500 || (this.#ended !== undefined && !orEnd)) {
        throw new Error(`${what} did not come about: ${this.story}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
