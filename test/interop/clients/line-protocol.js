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

export function text(bytes) {
  return bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString();
}

/** The records that a produce command asks for. */
export function recordsOf({ count, prefix, size = 0, nulls = false }) {
  return Array.from({ length: count }, (_, n) => ({
    key: nulls && n % 10 === 9 ? null : `${prefix}key ${n}`,
    value: nulls && n % 10 === 8 ? null : `${prefix}${n} `.padEnd(size, '=+'),
    headers: { n: String(n), from: prefix },
  }));
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
      write({ reply: id, error: String(error?.stack ?? error) });
    }
  }
  process.exit(0);
}
