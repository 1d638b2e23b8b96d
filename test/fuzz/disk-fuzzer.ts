/** Damages files of a data directory that a broker left, starts another one on it, and says what went wrong. */
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { BrokerRefusal, Client, LATEST } from '../../src/client/client.ts';
import { BroadsheetError, type Broker, createBroker } from '../../src/index.ts';
import { TestLogger } from '../broker/test-broker.ts';
import { recordOf, senderOf } from '../crash/content.ts';
import { mutate } from '../support/mutate.ts';
import type { Random } from '../support/random.ts';

const METADATA_FOLDER = '__cluster_metadata-0';
const BATCH_HEADER = 61;

/** harmless: can be made again from what else there is. records: a partition's segment. vital: without it nobody knows
 * whose the data is; a start may be refused, with a clear error, but no record may be deleted. */
type Kind = 'harmless' | 'records' | 'vital';

export interface PartitionFacts {
  readonly topic: string;
  readonly partition: number;
  /** Records 0 to count - 1 of the stream that is named like the folder. */
  readonly count: number;
}

function kindOf(path: string): Kind {
  if (path.startsWith(METADATA_FOLDER) || /(meta\.properties|partition\.metadata)$/.test(path))
    return 'vital';
  return path.endsWith('.log') ? 'records' : 'harmless';
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(dir, entry.name)) : [join(dir, entry.name)],
  );
}

/** One change to one file. Returns where the first changed byte is. */
function damage(path: string, random: Random): number {
  const before = readFileSync(path);
  switch (random.int(6)) {
    case 0:
      rmSync(path);
      return 0;
    case 1:
      writeFileSync(path, '');
      return 0;
    case 2:
      truncateSync(path, before.length + 1 + random.int(20_000));
      return before.length;
    default:
      writeFileSync(path, mutate(before, random));
  }
  const after = readFileSync(path);
  let at = 0;
  while (at < Math.min(before.length, after.length) && before[at] === after[at]) at++;
  return at;
}

/** The offset after the last batch that ends at or before a position of a segment. */
function offsetAt(segment: Buffer, base: number, position: number): number {
  let offset = base;
  for (let at = 0; at + BATCH_HEADER <= segment.length; ) {
    const end = at + 12 + segment.readInt32BE(at + 8);
    if (end > position) break;
    offset = Number(segment.readBigInt64BE(at)) + segment.readInt32BE(at + 23) + 1;
    at = end;
  }
  return offset;
}

export function streamOf({ topic, partition }: { topic: string; partition: number }): string {
  return `${topic}-${partition}`;
}

export class DiskFuzzer {
  readonly #pristine: string;
  readonly #work: string;
  readonly #partitions: readonly PartitionFacts[];
  readonly #random: Random;
  #starts = 0;

  /** `pristine` stays as it is; `work` is overwritten each round. */
  constructor(pristine: string, work: string, partitions: readonly PartitionFacts[], random: Random) {
    this.#pristine = pristine;
    this.#work = work;
    this.#partitions = partitions;
    this.#random = random;
  }

  /** One round; undefined when all went as it should. */
  async round(): Promise<string | undefined> {
    rmSync(this.#work, { recursive: true, force: true });
    cpSync(this.#pristine, this.#work, { recursive: true });
    const all = filesBelow(this.#work).map((path) => relative(this.#work, path));
    const paths = new Set(Array.from({ length: 1 + this.#random.int(2) }, () => this.#random.pick(all)));
    /** By folder: records below are out of reach of the damage. */
    const safe = new Map<string, number>();
    const done: string[] = [];
    let vital = false;
    for (const path of paths) {
      const before = readFileSync(join(this.#work, path));
      const at = damage(join(this.#work, path), this.#random);
      done.push(`${path} from byte ${at}`);
      const kind = kindOf(path);
      vital ||= kind === 'vital';
      if (kind === 'records') {
        const offset = offsetAt(before, Number(basename(path, '.log')), at);
        const folder = dirname(path);
        safe.set(folder, Math.min(offset, safe.get(folder) ?? Number.POSITIVE_INFINITY));
      }
    }
    const fault = vital ? await this.#startOnVital(safe) : await this.#startOn(safe);
    return fault === undefined ? undefined : `${done.join(', ')}: ${fault}`;
  }

  /** Of the partitions whose segments are whole: a damaged one is cut. */
  #recordBytes(safe: ReadonlyMap<string, number>): number {
    return filesBelow(this.#work)
      .filter((path) => path.endsWith('.log') && !path.includes(METADATA_FOLDER))
      .filter((path) => !safe.has(basename(dirname(path))))
      .reduce((sum, path) => sum + readFileSync(path).length, 0);
  }

  async #start(logger: TestLogger): Promise<Broker> {
    // Both engines open what the native one left.
    const engine = ++this.#starts % 2 === 0 ? 'native' : 'js';
    return createBroker({ dataDir: this.#work, host: '127.0.0.1', port: 0, logger, config: { engine } });
  }

  async #startOnVital(safe: ReadonlyMap<string, number>): Promise<string | undefined> {
    const before = this.#recordBytes(safe);
    let broker: Broker | undefined;
    try {
      broker = await this.#start(new TestLogger());
      const client = await Client.connect(broker.bootstrapServers);
      await client.metadata();
      await client.close();
    } catch (error) {
      if (!(error instanceof BroadsheetError)) return `the start threw ${(error as Error).stack}`;
      if (!error.message.includes(this.#work)) return `an error that names no file: ${error.message}`;
    } finally {
      await broker?.close();
    }
    const after = this.#recordBytes(safe);
    return after < before ? `${before - after} bytes of records are gone` : undefined;
  }

  async #startOn(safe: ReadonlyMap<string, number>): Promise<string | undefined> {
    const logger = new TestLogger();
    let broker: Broker;
    try {
      broker = await this.#start(logger);
    } catch (error) {
      return `the start failed: ${(error as Error).stack}`;
    }
    try {
      const client = await Client.connect(broker.bootstrapServers);
      for (const facts of this.#partitions) {
        const fault = await this.#check(client, facts, safe.get(streamOf(facts)));
        if (fault !== undefined) return [`${streamOf(facts)}: ${fault}`, ...this.#errors(logger)].join('; ');
      }
      await client.close();
    } finally {
      await broker.close();
    }
    const errors = this.#errors(logger);
    return safe.size === 0 && errors.length > 0 ? errors.join('; ') : undefined;
  }

  #errors(logger: TestLogger): string[] {
    return logger.lines
      .filter(({ level }) => level === 'error')
      .map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`);
  }

  /** `safe`: records that must be there; undefined: all of them, and the next one can be appended. */
  async #check(client: Client, facts: PartitionFacts, safe: number | undefined): Promise<string | undefined> {
    const { topic, partition, count } = facts;
    const stream = streamOf(facts);
    const due = safe ?? count;
    // A client that looks at a whole answer before it gives a record of it would miss those before the damage.
    const oneBatch = safe === undefined ? {} : { maxBytes: 1 };
    let next = 0;
    try {
      if (safe === undefined) {
        const { offset } = await client.listOffset(topic, partition, LATEST);
        if (offset !== count) return `ends at ${offset} instead of ${count}`;
        const answer = await client.produce(topic, partition, [recordOf(stream, count)]);
        if (answer!.baseOffset !== count) return `the next record went to ${answer!.baseOffset}`;
      }
      const end = safe === undefined ? count + 1 : (await client.listOffset(topic, partition, LATEST)).offset;
      for await (const record of client.records(topic, partition, 0, { end, ...oneBatch })) {
        const sender = senderOf(record);
        if (record.offset !== next || sender?.stream !== stream || sender.sequence !== next) {
          if (next < due) return `the record at ${next} is not as it was`;
          break;
        }
        next++;
      }
    } catch (error) {
      const expected = error instanceof BroadsheetError || error instanceof BrokerRefusal;
      if (!expected || safe === undefined || next < due)
        return `after ${next} of ${due} records: ${(error as Error).message}`;
      return undefined;
    }
    return next < due ? `${next} of ${due} records` : undefined;
  }
}
