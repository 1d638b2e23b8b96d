/** Apache Kafka and what lies beside the repository for tests against it. BROADSHEET_KAFKA names the command that starts
 * it, BROADSHEET_PROTOCOL the folder with its facts and directories. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BrokerRefusal, Client, LATEST } from '../../src/client/client.ts';

const run = promisify(execFile);
const SHARED = fileURLToPath(new URL('../../../shared', import.meta.url));

export const KAFKA = process.env.BROADSHEET_KAFKA ?? `${SHARED}/peers/kafka`;
export const PROTOCOL = process.env.BROADSHEET_PROTOCOL ?? `${SHARED}/protocol`;

/** Where a test file's Apache Kafka listens, with nine ports above it that are free: two files may run at once. */
export function kafkaPort(): number {
  const base = Number(process.env.BROADSHEET_KAFKA_PORT ?? 19_100);
  return base + 10 * (Number(process.env.VITEST_POOL_ID ?? 1) - 1);
}

/** Runs a command and returns what it printed; throws with its errors. */
export async function command(file: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(file, args, { maxBuffer: 1 << 28 });
  return stdout;
}

function refused(error: unknown): false {
  if (error instanceof BrokerRefusal) return false;
  throw error;
}

/** One Apache Kafka on `<dir>/data`. */
export class KafkaPeer {
  readonly dir: string;
  readonly port: number;
  /** Settings of every start, as key=value; they win over the command's own. */
  readonly settings: string[] = [];
  /** The node's id; one that is not 1 is among the settings. */
  nodeId = 1;

  constructor(dir: string, port: number) {
    this.dir = dir;
    this.port = port;
  }

  get dataDir(): string {
    return `${this.dir}/data`;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  async start(...settings: string[]): Promise<void> {
    const sets = [...this.settings, ...settings].flatMap((setting) => ['--set', setting]);
    await command(KAFKA, 'start', '--dir', this.dir, '--port', String(this.port), ...sets);
  }

  /** Waits until partitions can be used: a broker that answers Metadata may not lead all of them yet. */
  async untilLeading(partitions: Iterable<readonly [topic: string, partition: number]>): Promise<void> {
    const client = await Client.connect(this.address);
    for (const [topic, partition] of partitions) {
      while (!(await client.listOffset(topic, partition, LATEST).then(() => true, refused))) {
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
    await client.close();
  }

  /** Formats the directory without starting on it. */
  async format(clusterId: string, ...args: string[]): Promise<void> {
    const config = `${this.dir}/format.properties`;
    const lines = [
      'process.roles=broker,controller',
      'node.id=1',
      `listeners=PLAINTEXT://${this.address},CONTROLLER://127.0.0.1:${this.port + 1}`,
      'controller.listener.names=CONTROLLER',
      `controller.quorum.bootstrap.servers=127.0.0.1:${this.port + 1}`,
      `log.dirs=${this.dataDir}`,
    ];
    writeFileSync(config, [...lines, ...this.settings].join('\n'));
    await command(KAFKA, 'tool', 'storage', 'format', '-c', config, '-t', clusterId, ...args);
  }

  async stop(): Promise<void> {
    await command(KAFKA, 'stop', '--dir', this.dir);
  }

  /** SIGKILL; resolves once it is gone. */
  async kill(): Promise<void> {
    const pid = Number(readFileSync(`${this.dir}/pid`, 'utf8'));
    process.kill(pid, 'SIGKILL');
    while (existsSync(`/proc/${pid}/cmdline`) && readFileSync(`/proc/${pid}/cmdline`).length > 0) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Ends whatever still runs of it. */
  async dispose(): Promise<void> {
    if (existsSync(`${this.dir}/pid`)) await this.stop();
  }

  tool(name: string, ...args: string[]): Promise<string> {
    return command(KAFKA, 'tool', name, '--bootstrap-server', this.address, ...args);
  }

  /** Leader of each partition, by `topic-partition`, as kcat sees it. */
  async leaders(): Promise<Map<string, number>> {
    const listing = JSON.parse(await command('kcat', '-b', this.address, '-L', '-J')) as {
      topics: { topic: string; partitions: { partition: number; leader: number }[] }[];
    };
    return new Map(
      listing.topics.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, leader }) => [`${topic}-${partition}`, leader] as [string, number]),
      ),
    );
  }

  /** `offset:value` of every record of a partition. */
  async consume(topic: string, partition: number): Promise<string[]> {
    const args = [
      '-b',
      this.address,
      '-C',
      '-t',
      topic,
      '-p',
      String(partition),
      '-o',
      'beginning',
      '-e',
      '-q',
    ];
    const text = await command('kcat', ...args, '-f', '%o:%s\\n');
    return text.split('\n').filter((line) => line !== '');
  }

  /** End offset of each partition, by `topic-partition`. */
  async endOffsets(): Promise<Map<string, number>> {
    const text = await this.tool('get-offsets', '--time', '-1');
    const lines = text.split('\n').filter((line) => line !== '');
    return new Map(
      lines.map((line) => {
        const [topic, partition, offset] = line.split(':');
        return [`${topic}-${partition}`, Number(offset)];
      }),
    );
  }
}
