/** `broadsheet produce`: records from standard input. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client } from '../client/client.ts';
import { Producer } from '../client/producer.ts';
import { COMPRESSIONS, type CompressionName } from '../protocol/compression.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { byteCount, eachPair, escaped, natural } from './arguments.ts';
import { bytesText, counted, note, Progress } from './output.ts';
import { INPUT_FIELDS, type Input, type InputField, jsonRecord, pieces, textRecord } from './record-input.ts';
import { overTheWire, type SessionOptions, withClient } from './session.ts';

interface ProduceOptions extends SessionOptions {
  readonly fields: readonly InputField[];
  readonly separator: Buffer;
  readonly delimiter: Buffer;
  readonly chunk?: number;
  readonly null?: Buffer;
  readonly key?: string;
  readonly header?: readonly (readonly [key: string, value: string])[];
  readonly partition?: number;
  readonly compression: CompressionName;
  readonly acks: 'all' | '1' | '0';
  /** False with --no-idempotence. */
  readonly idempotence: boolean;
  readonly batchBytes: number;
  readonly linger: number;
  readonly quiet?: boolean;
}

const ACKS = { all: -1, '1': 1, '0': 0 } as const;
/** How many refused records are named; the others are counted. */
const NAMED_REFUSALS = 10;

async function produce(client: Client, topic: string, options: ProduceOptions): Promise<void> {
  const acks = ACKS[options.acks];
  let unnamed = 0;
  let named = 0;
  const refused = (tag: number, error: Error) => {
    if (named < NAMED_REFUSALS) {
      named++;
      progress.clear();
      note(`record ${tag} was not written: ${error.message}`);
    } else unnamed++;
  };
  const producer = await Producer.create(client, topic, {
    acks,
    idempotent: options.idempotence && acks === -1,
    compression: options.compression,
    batchBytes: options.batchBytes,
    lingerMs: options.linger,
    deliveryTimeoutMs: options.timeout,
    onRefused: refused,
  });
  let bytes = 0;
  let read = 0;
  const progress = new Progress(
    () => `${counted(producer.delivered, 'record')} written, ${bytesText(bytes)} read`,
  );
  const ticking = options.quiet ? undefined : setInterval(() => progress.tick(), 200);
  const readRecord = reader(options, producer.partitions);
  let stopped = false;
  const stop = () => {
    stopped = true;
    process.stdin.destroy();
  };
  process.once('SIGINT', stop);
  let failure: unknown;
  let sent = 0;
  try {
    for await (const piece of pieces(process.stdin, options.chunk ?? options.delimiter)) {
      bytes += piece.length;
      read++;
      const { partition, ...record } = readRecord(piece, read);
      producer.send(record, partition, read);
      sent++;
      if (producer.full) await producer.room();
    }
  } catch (error) {
    if (!stopped) failure = error;
  }
  process.removeListener('SIGINT', stop);
  // What was read before stands, whatever came after.
  let answered = true;
  await producer.flush().catch((error: unknown) => {
    answered = false;
    failure ??= error;
  });
  clearInterval(ticking);
  progress.clear();
  if (unnamed > 0) note(`... and ${unnamed} others`);
  if (!options.quiet) note(`${counted(producer.delivered, 'record')} written to ${topic}`);
  if (failure !== undefined) {
    if (!answered) {
      const unknown = sent - producer.delivered - producer.refused;
      if (unknown > 0)
        note(`of the last ${counted(unknown, 'record')} read it is not known whether they are written`);
    } else if (sent < read) note(`record ${read} was not written, nor what comes after it`);
    throw failure;
  }
  if (producer.refused > 0) {
    throw new BroadsheetError('BROKER_REFUSED', `${producer.refused} of ${read} records were not written`);
  }
  // As a shell counts a death by SIGINT.
  if (stopped) process.exitCode = 130;
}

/** How a piece of the input becomes a record. */
function reader(options: ProduceOptions, partitions: number): (piece: Buffer, number: number) => Input {
  const headers = (options.header ?? []).map(([key, value]) => ({ key, value: Buffer.from(value) }));
  const key = options.key === undefined ? undefined : Buffer.from(options.key);
  return (piece, number) => {
    let input: Input;
    try {
      input = options.json ? jsonRecord(piece) : textRecord(piece, options);
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      throw new BroadsheetError('MALFORMED', `record ${number} of the input: ${error.message}`);
    }
    const partition = input.partition ?? options.partition;
    if (partition !== undefined && partition >= partitions) {
      throw new BroadsheetError(
        'NOT_FOUND',
        `record ${number} of the input: there is no partition ${partition}, only 0 to ${partitions - 1}`,
      );
    }
    return {
      ...input,
      key: input.key === undefined ? key : input.key,
      partition,
      headers: headers.length === 0 ? input.headers : [...headers, ...input.headers],
    };
  };
}

function fields(text: string): InputField[] {
  return text.split(',').map((field) => {
    if (!INPUT_FIELDS.includes(field as InputField))
      throw new InvalidArgumentError(`fields are ${INPUT_FIELDS.join(', ')}.`);
    return field as InputField;
  });
}

export function define(command: Command): void {
  overTheWire(command, 'read a JSON object a line, as `consume --json` prints them')
    .argument('<topic>', 'is created on the way where the broker does that')
    .addHelpText(
      'after',
      `
A record is a line of the input, and the line its value, unless options say else. For example:
  echo hello | broadsheet produce greetings
  printf 'k1:v1\\nk2:v2\\n' | broadsheet produce pairs --fields key,value --separator :
  broadsheet produce files --chunk 64k < image.iso
  broadsheet consume a --json | broadsheet produce b --json`,
    )
    .addOption(
      new Option('-f, --fields <list>', `what a line has, of ${INPUT_FIELDS.join(', ')}`)
        .argParser(fields)
        .default(['value'], 'value'),
    )
    .addOption(
      new Option('-s, --separator <text>', 'between the fields of a line')
        .argParser(escaped)
        .default(Buffer.from('\t'), 'a tab'),
    )
    .addOption(
      new Option('-d, --delimiter <text>', "ends a record; '' for none: all is one record")
        .argParser(escaped)
        .default(Buffer.from('\n'), 'a newline'),
    )
    .option('--chunk <bytes>', 'every so many bytes of the input are a record, whatever they are', byteCount)
    .option('--null <text>', 'a key or value that reads so is null', escaped)
    .option('-k, --key <key>', 'key of each record that has none of its own')
    .option('-H, --header <key=value>', 'header of each record; may be repeated', eachPair)
    .option('-p, --partition <n>', 'default: by the key, or one after the other', natural)
    .addOption(
      new Option('-z, --compression <codec>', 'codec of the batches').choices(COMPRESSIONS).default('none'),
    )
    .addOption(
      new Option('--acks <n>', 'whose acknowledgement to wait for').choices(['all', '1', '0']).default('all'),
    )
    .option('--no-idempotence', 'let a batch that is sent twice be written twice')
    .option('--batch-bytes <bytes>', 'size of a batch before compression', byteCount, 512 * 1024)
    .option('--linger <ms>', 'how long a record waits for others', natural, 5)
    .option('-q, --quiet', 'no progress and no count')
    .action((topic: string, options: ProduceOptions) =>
      withClient(options, (client) => produce(client, topic, options)),
    );
}
