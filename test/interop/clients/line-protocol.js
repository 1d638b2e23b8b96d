// The drivers' side of the line protocol, for Node: docs in README.md beside this file.
import { createInterface } from 'node:readline';

const [address] = process.argv.slice(2);

function write(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Says what came to pass without being asked. */
export const tell = {
  /** All partitions that the member holds now, as [topic, partition]. */
  assignment: (partitions) =>
    write({
      event: 'assignment',
      partitions: partitions.map(([topic, partition]) => `${topic}-${partition}`),
    }),
  record: (topic, partition, offset, key, value, headers) =>
    write({ event: 'record', topic, partition, offset: Number(offset), key, value, headers }),
  /** What an application would be told. */
  error: (error) => write({ event: 'error', message: String(error?.message ?? error) }),
};

/** Positions after the last record of each partition that was told of: what a commit is to carry. */
export class Positions {
  #next = new Map();

  add(topic, partition, offset) {
    this.#next.set(`${topic}-${partition}`, { topic, partition, offset: Number(offset) + 1 });
  }

  /** Forgets partitions that are held no more. */
  keep(partitions) {
    const held = new Set(partitions.map(([topic, partition]) => `${topic}-${partition}`));
    for (const key of this.#next.keys()) if (!held.has(key)) this.#next.delete(key);
  }

  all() {
    return [...this.#next.values()];
  }
}

/** Records that the member was told of and that are in no committed transaction. */
export class Inbox {
  #records = [];
  #next = new Map();
  #taken = 0;

  /** Of a record that comes again, after a rebalance, only the first counts. */
  add(record) {
    const place = `${record.topic}-${record.partition}`;
    if (Number(record.offset) < (this.#next.get(place) ?? 0)) return;
    this.#next.set(place, Number(record.offset) + 1);
    this.#records.push(record);
  }

  /** All, for the transaction that is open, as soon as they are `count`. */
  async take(count) {
    while (this.#records.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
    this.#taken = this.#records.length;
    return [...this.#records];
  }

  /** What an aborted transaction had is there again for the next one. */
  ended(committed) {
    if (committed) this.#records.splice(0, this.#taken);
    this.#taken = 0;
  }
}

/** The positions after records, by topic: [{topic, partitions: [{partition, offset}]}], with offsets as text. */
export function offsetsAfter(records) {
  const topics = new Map();
  for (const { topic, partition, offset } of records) {
    if (!topics.has(topic)) topics.set(topic, new Map());
    topics.get(topic).set(partition, String(Number(offset) + 1));
  }
  return [...topics].map(([topic, partitions]) => ({
    topic,
    partitions: [...partitions].map(([partition, offset]) => ({ partition, offset })),
  }));
}

/** What a transform command makes of a record: to the same partition, the value in capitals. */
export function transformed({ partition, key, value, headers }) {
  return { partition, key: text(key), value: text(value).toUpperCase(), headers };
}

export function text(bytes) {
  return bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString();
}

/** The records that a produce or send command asks for. */
export function recordsOf({ count, prefix, size = 0, nulls = false, partitions }) {
  return Array.from({ length: count }, (_, n) => ({
    ...(partitions !== undefined && { partition: n % partitions }),
    key: nulls && n % 10 === 9 ? null : `${prefix}key ${n}`,
    value: nulls && n % 10 === 8 ? null : `${prefix}${n} `.padEnd(size, '=+'),
    headers: { n: String(n), from: prefix },
  }));
}

/** An error with those that are in it. */
function story(error) {
  const within = (error?.errors ?? []).map((each) => `${each.apiId ?? ''} ${each.message}`);
  return [String(error?.stack ?? error), ...within].join('\n');
}

/** Answers commands one after the other until the input ends. */
export async function serve(ready, makeCommands) {
  const commands = makeCommands(address);
  process.on('unhandledRejection', (error) => tell.error(error));
  write({ event: 'ready', ...ready });
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, cmd, ...args } = JSON.parse(line);
    try {
      write({ reply: id, result: (await commands[cmd](args)) ?? {} });
    } catch (error) {
      write({ reply: id, error: story(error) });
    }
  }
  process.exit(0);
}
