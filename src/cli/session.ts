/** What all commands that talk to a broker share: their options, the connection, and errors that say what to do. */
import type { Command } from 'commander';
import { BrokerRefusal, Client } from '../client/client.ts';
import { KafkaError } from '../protocol/errors.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { positive } from './arguments.ts';
import { endWithReader } from './output.ts';

export interface SessionOptions {
  readonly bootstrapServer: string;
  readonly timeout: number;
  readonly json?: boolean;
}

/** Adds the options of every command that talks to a broker. `json` says what --json does there. */
export function overTheWire(command: Command, json = 'print one JSON document'): Command {
  return command
    .option('-b, --bootstrap-server <host:port,...>', 'brokers to ask first', 'localhost:9092')
    .option('--timeout <ms>', 'how long to wait for a connection and for each answer', positive, 30_000)
    .option('--json', json);
}

/** Runs a command with a connection. Throws what it throws, with words on how to mend it. */
export async function withClient(
  options: SessionOptions,
  run: (client: Client) => Promise<void>,
): Promise<void> {
  endWithReader();
  let client: Client;
  try {
    client = await Client.connect(options.bootstrapServer, {
      clientId: 'broadsheet-cli',
      timeoutMs: options.timeout,
    });
  } catch (error) {
    throw unreachable(options.bootstrapServer, error);
  }
  try {
    await run(client);
  } catch (error) {
    throw explained(error);
  } finally {
    await client.close();
  }
}

function unreachable(bootstrap: string, error: unknown): unknown {
  if (!(error instanceof BroadsheetError) || error.code === 'INVALID_ARGUMENT') return error;
  const another = 'Name a broker with --bootstrap-server';
  if (/sent a length of 1213486160$/.test(error.message)) {
    return new BroadsheetError(error.code, `${bootstrap} speaks HTTP, not Kafka's protocol. ${another}`);
  }
  if (/^no answer to /.test(error.message)) {
    return new BroadsheetError(
      error.code,
      `${bootstrap} takes connections, but does not answer as a Kafka broker does (${error.message}): ` +
        `is that a plaintext Kafka listener? ${another}, or wait longer with --timeout`,
    );
  }
  if (error.code === 'MALFORMED' || /closed the connection|read ECONNRESET/.test(error.message)) {
    return new BroadsheetError(
      error.code,
      `${bootstrap} does not answer as a Kafka broker does (${error.message}): ` +
        `is that a plaintext Kafka listener? ${another}`,
    );
  }
  const reason = error.message.replace(/^no connection to \S+: /, '');
  return new BroadsheetError(
    error.code,
    `cannot connect to ${bootstrap} (${reason}): is a broker running there? ` +
      'Start one with `npx broadsheet start`, or name another with --bootstrap-server',
  );
}

const ADVICE: ReadonlyMap<number, string> = new Map([
  [KafkaError.UNKNOWN_TOPIC_OR_PARTITION, '`broadsheet topic list` shows what there is'],
  [
    KafkaError.INVALID_TOPIC_EXCEPTION,
    "a topic's name has at most 249 letters, digits, dots, underscores and dashes",
  ],
  [KafkaError.GROUP_ID_NOT_FOUND, '`broadsheet group list` shows what there is'],
  [KafkaError.NON_EMPTY_GROUP, 'stop its members first; `broadsheet group describe` shows them'],
  [KafkaError.OFFSET_OUT_OF_RANGE, '`broadsheet topic describe` shows where each partition begins and ends'],
]);

function explained(error: unknown): unknown {
  if (!(error instanceof BrokerRefusal)) return error;
  const advice = ADVICE.get(error.kafkaCode);
  // That error has other causes too, which the broker then names.
  const named =
    error.kafkaCode === KafkaError.INVALID_TOPIC_EXCEPTION && !error.message.endsWith(error.kafkaError);
  return advice === undefined || named
    ? error
    : new BroadsheetError(error.code, `${error.message.replace(/\.$/, '')}; ${advice}`);
}
