/** `broadsheet consume`: prints records. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Client, LATEST } from '../client/client.ts';
import { type FetchedPartition, Fetcher } from '../client/fetcher.ts';
import { GroupMember } from '../client/group-member.ts';
import { committedOffsets } from '../client/groups.ts';
import { type PartitionOf, partitionName } from '../client/offsets.ts';
import { sleep } from '../client/producer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import {
  eachTopicPartitions,
  escaped,
  type Position,
  position,
  positive,
  type TopicPartitions,
} from './arguments.ts';
import { bytesText, counted, isReaderGone, note, Progress, print, whenReaderGone } from './output.ts';
import { offsetsAt, type Place, resolvePartitions, resolvePositions } from './positions.ts';
import {
  type Formatter,
  jsonFormatter,
  OUTPUT_FIELDS,
  type OutputField,
  textFormatter,
} from './record-output.ts';
import { overTheWire, type SessionOptions, withClient } from './session.ts';

interface ConsumeOptions extends SessionOptions {
  readonly from: Position;
  readonly count?: number;
  readonly follow?: boolean;
  readonly group?: string;
  readonly fields: readonly OutputField[];
  readonly separator: Buffer;
  readonly delimiter: Buffer;
  readonly null: Buffer;
  readonly isolation: 'read_committed' | 'read_uncommitted';
  readonly quiet?: boolean;
}

/** Prints records as they come, and knows when it is enough. */
class Printer {
  readonly #format: Formatter;
  readonly #limit: number;
  readonly #progress = new Progress(() => `${counted(this.count, 'record')} read, ${bytesText(this.#bytes)}`);
  readonly #showProgress: boolean;
  #bytes = 0;
  count = 0;

  constructor(options: ConsumeOptions) {
    this.#format = options.json ? jsonFormatter : textFormatter(options);
    this.#limit = options.count ?? Number.POSITIVE_INFINITY;
    // On a terminal the records themselves show that it goes on.
    this.#showProgress = !options.quiet && !process.stdout.isTTY;
  }

  get done(): boolean {
    return this.count >= this.#limit;
  }

  /** Prints records below `end`; resolves with the offset after what is done with. */
  async print(fetched: FetchedPartition, end: number): Promise<number> {
    const { topic, partition, records } = fetched;
    const out: Uint8Array[] = [];
    let next = Math.min(fetched.nextOffset, end);
    for (const record of records) {
      if (record.offset >= end) break;
      if (this.done) {
        next = record.offset;
        break;
      }
      this.#format(out, topic, partition, record);
      this.count++;
    }
    const bytes = Buffer.concat(out);
    this.#bytes += bytes.length;
    if (this.#showProgress) this.#progress.tick();
    if (bytes.length > 0) await print(bytes);
    return next;
  }

  finish(): void {
    this.#progress.clear();
  }
}

/** What was printed of each partition, and whether that is enough. */
class Reading {
  readonly #client: Client;
  readonly #options: ConsumeOptions;
  readonly #fetcher: Fetcher;
  readonly #printer: Printer;
  readonly #ends = new Map<string, number>();
  readonly #open = new Set<string>();
  /** Where the next run would go on: what was printed, and nothing else, lies before. */
  readonly places = new Map<string, Place>();

  constructor(client: Client, options: ConsumeOptions, printer: Printer) {
    this.#client = client;
    this.#options = options;
    this.#printer = printer;
    const committedOnly = options.isolation === 'read_committed';
    this.#fetcher = new Fetcher(client, { committedOnly, timeoutMs: options.timeout });
  }

  /** Begins at the places; unless it follows, it ends where the partitions end now. */
  async begin(places: readonly Place[]): Promise<void> {
    const { follow, isolation } = this.#options;
    const ends = follow
      ? undefined
      : await offsetsAt(this.#client, places, LATEST, isolation === 'read_committed');
    for (const [index, place] of places.entries()) {
      const name = partitionName(place);
      const end = ends?.[index] ?? Number.POSITIVE_INFINITY;
      this.#ends.set(name, end);
      if (place.offset >= end) continue;
      this.#fetcher.seek(place, place.offset);
      this.#open.add(name);
    }
  }

  get done(): boolean {
    return this.#open.size === 0 || this.#printer.done;
  }

  /** Prints what comes next. */
  async step(): Promise<void> {
    for (const fetched of await this.#fetcher.poll()) {
      const name = partitionName(fetched);
      const end = this.#ends.get(name)!;
      const next = await this.#printer.print(fetched, end);
      if (isReaderGone()) return;
      const { topic, partition } = fetched;
      this.places.set(name, { topic, partition, offset: next });
      if (this.#printer.done) return;
      if (fetched.nextOffset < end) continue;
      this.#fetcher.drop(fetched);
      this.#open.delete(name);
    }
  }
}

async function consume(
  client: Client,
  given: readonly TopicPartitions[],
  options: ConsumeOptions,
): Promise<void> {
  const printer = new Printer(options);
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  whenReaderGone(stop);
  const isStopped = () => stopped;
  if (options.group === undefined) {
    const places = await resolvePositions(client, await resolvePartitions(client, given), options.from);
    const reading = new Reading(client, options, printer);
    await reading.begin(places);
    while (!reading.done && !isStopped()) await reading.step();
  } else {
    await consumeAsMember(client, options.group, given, options, printer, isStopped);
  }
  process.removeListener('SIGINT', stop);
  process.removeListener('SIGTERM', stop);
  printer.finish();
  // Of what was printed before the reader went away nobody knows how much it took.
  if (!options.quiet && !process.stdout.isTTY && !isReaderGone())
    note(`${counted(printer.count, 'record')} read`);
}

/** How often a member commits, ms; as Kafka's consumers do by default. */
const COMMIT_MS = 5_000;

async function consumeAsMember(
  client: Client,
  groupId: string,
  given: readonly TopicPartitions[],
  options: ConsumeOptions,
  printer: Printer,
  isStopped: () => boolean,
): Promise<void> {
  const topics = given.map(({ topic, partitions }) => {
    if (partitions !== undefined)
      throw new BroadsheetError('INVALID_ARGUMENT', 'with --group, the group chooses the partitions');
    return topic;
  });
  for (const topic of topics) await client.topic(topic);
  const member = new GroupMember(client, { groupId, topics });
  try {
    for (let ended = false; !ended && !isStopped(); ) {
      const assigned = await member.join();
      const reading = new Reading(client, options, printer);
      await reading.begin(await startingPlaces(client, groupId, assigned, options.from));
      let committed = performance.now();
      while (!member.rejoin && !isStopped() && !reading.done) {
        await reading.step();
        if (performance.now() - committed < COMMIT_MS) continue;
        await member.commit([...reading.places.values()]);
        committed = performance.now();
      }
      await member.commit([...reading.places.values()]);
      ended = reading.done && (!options.follow || printer.done);
      // With nothing assigned there is nothing to read, but what comes may be for this member.
      while (options.follow && !ended && reading.done && !member.rejoin && !isStopped()) await sleep(100);
    }
  } finally {
    await member.leave();
  }
}

/** What the group has committed; elsewhere where `--from` says. */
async function startingPlaces(
  client: Client,
  groupId: string,
  assigned: readonly PartitionOf[],
  from: Position,
): Promise<Place[]> {
  const committed = new Map(
    (await committedOffsets(client, groupId)).map((each) => [partitionName(each), each.offset]),
  );
  const fresh = assigned.filter((each) => !committed.has(partitionName(each)));
  const begun = assigned.flatMap((each) => {
    const offset = committed.get(partitionName(each));
    return offset === undefined ? [] : [{ ...each, offset }];
  });
  return [...begun, ...(await resolvePositions(client, fresh, from))];
}

function fields(text: string): OutputField[] {
  return text.split(',').map((field) => {
    if (!OUTPUT_FIELDS.includes(field as OutputField))
      throw new InvalidArgumentError(`fields are ${OUTPUT_FIELDS.join(', ')}.`);
    return field as OutputField;
  });
}

export function define(command: Command): void {
  overTheWire(command, 'print a JSON object a line, with all fields')
    .argument('<topic[:partitions]...>', 'as in orders, orders:0, orders:0,2-4', eachTopicPartitions)
    .addHelpText(
      'after',
      `
Prints the values of all records that are there, a line each, and ends. For example:
  broadsheet consume greetings
  broadsheet consume orders --follow --from end --fields partition,offset,key,value
  broadsheet consume orders:0 --from -10
  broadsheet consume orders --from 2026-01-31T12:00:00Z --json
  broadsheet consume files --delimiter '' > image.iso`,
    )
    .addOption(
      new Option(
        '--from <position>',
        'beginning, end, an offset, -n for the last n, or a time (2026-01-31T12:00:00Z, @ms, 10m)',
      )
        .argParser((text) => position(text))
        .default({ kind: 'earliest' } as Position, 'beginning'),
    )
    .option('-n, --count <n>', 'end after so many records', positive)
    .option('-F, --follow', 'go on with what comes, until Ctrl-C')
    .option(
      '-g, --group <group>',
      'as a member of the group: from what it has committed, else from --from; commits what was printed',
    )
    .addOption(
      new Option('-f, --fields <list>', `what to print, of ${OUTPUT_FIELDS.join(', ')}`)
        .argParser(fields)
        .default(['value'], 'value'),
    )
    .addOption(
      new Option('-s, --separator <text>', 'between fields')
        .argParser(escaped)
        .default(Buffer.from('\t'), 'a tab'),
    )
    .addOption(
      new Option('-d, --delimiter <text>', "after each record; '' for none")
        .argParser(escaped)
        .default(Buffer.from('\n'), 'a newline'),
    )
    .addOption(
      new Option('--null <text>', 'stands for a key or value that is null')
        .argParser(escaped)
        .default(Buffer.alloc(0), 'nothing'),
    )
    .addOption(
      new Option('--isolation <level>', 'read_committed leaves aborted transactions out')
        .choices(['read_uncommitted', 'read_committed'])
        .default('read_uncommitted'),
    )
    .option('-q, --quiet', 'no progress and no count')
    .action((given: TopicPartitions[], options: ConsumeOptions) =>
      withClient(options, (client) => consume(client, given, options)),
    );
}
