/** `broadsheet consume`: prints records. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Client, LATEST } from '../client/client.ts';
import { Fetcher } from '../client/fetcher.ts';
import { partitionName } from '../client/offsets.ts';
import {
  eachTopicPartitions,
  escaped,
  type Position,
  position,
  positive,
  type TopicPartitions,
} from './arguments.ts';
import { bytesText, note, Progress, print } from './output.ts';
import { offsetsAt, resolvePartitions, resolvePositions } from './positions.ts';
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
  readonly #progress = new Progress(() => `${this.count} records read, ${bytesText(this.#bytes)}`);
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

  async print(
    topic: string,
    partition: number,
    records: Iterable<Parameters<Formatter>[3]>,
    end: number,
  ): Promise<void> {
    const out: Uint8Array[] = [];
    for (const record of records) {
      if (this.done || record.offset >= end) break;
      this.#format(out, topic, partition, record);
      this.count++;
    }
    const bytes = Buffer.concat(out);
    this.#bytes += bytes.length;
    if (this.#showProgress) this.#progress.tick();
    if (bytes.length > 0) await print(bytes);
  }

  finish(): void {
    this.#progress.clear();
  }
}

async function consume(
  client: Client,
  given: readonly TopicPartitions[],
  options: ConsumeOptions,
): Promise<void> {
  const committedOnly = options.isolation === 'read_committed';
  const partitions = await resolvePartitions(client, given);
  const places = await resolvePositions(client, partitions, options.from);
  const ends = new Map<string, number>();
  if (!options.follow) {
    const offsets = await offsetsAt(client, partitions, LATEST, committedOnly);
    for (const [index, each] of partitions.entries()) ends.set(partitionName(each), offsets[index]!);
  }
  const endOf = (name: string) => ends.get(name) ?? Number.POSITIVE_INFINITY;
  const fetcher = new Fetcher(client, { committedOnly, timeoutMs: options.timeout });
  const open = new Set<string>();
  for (const place of places) {
    const name = partitionName(place);
    if (place.offset >= endOf(name)) continue;
    fetcher.seek(place, place.offset);
    open.add(name);
  }
  const printer = new Printer(options);
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop);
  while (open.size > 0 && !printer.done && !stopped) {
    for (const fetched of await fetcher.poll()) {
      const name = partitionName(fetched);
      await printer.print(fetched.topic, fetched.partition, fetched.records, endOf(name));
      if (fetched.nextOffset < endOf(name)) continue;
      fetcher.drop(fetched);
      open.delete(name);
    }
  }
  process.removeListener('SIGINT', stop);
  printer.finish();
  if (!options.quiet && !process.stdout.isTTY) note(`${printer.count} records read`);
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
    .option(
      '--from <position>',
      'beginning, end, an offset, -n for the last n, or a time (2026-01-31T12:00:00Z, @ms, 10m)',
      (text) => position(text),
      { kind: 'earliest' } as Position,
    )
    .option('-n, --count <n>', 'end after so many records', positive)
    .option('-F, --follow', 'go on with what comes, until Ctrl-C')
    .option('-f, --fields <list>', `what to print, of ${OUTPUT_FIELDS.join(', ')}`, fields, ['value'])
    .option('-s, --separator <text>', 'between fields', escaped, Buffer.from('\t'))
    .option('-d, --delimiter <text>', "after each record; '' for none", escaped, Buffer.from('\n'))
    .option('--null <text>', 'stands for a key or value that is null', escaped, Buffer.alloc(0))
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
