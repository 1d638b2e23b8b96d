/** What the clients are run against: this broker, or, with BROADSHEET_CLIENTS_ON_KAFKA=1, Apache Kafka, to see whether a
 * scenario asks for what Kafka does. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BrokerProcess } from './broker-process.ts';
import { KafkaPeer } from './kafka-peer.ts';

const ON_KAFKA = process.env.BROADSHEET_CLIENTS_ON_KAFKA === '1';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export abstract class ClientServer {
  protected readonly dir = mkdtempSync(join(tmpdir(), 'broadsheet-clients-'));
  protected readonly settings: Readonly<Record<string, string>>;
  abstract readonly address: string;

  constructor(settings: Readonly<Record<string, string>>) {
    this.settings = settings;
  }

  static async start(settings: Readonly<Record<string, string>>): Promise<ClientServer> {
    return ON_KAFKA ? ApacheKafka.create(settings) : Broadsheet.create(settings);
  }

  /** An orderly end, and a start at the same address. */
  abstract restart(): Promise<void>;
  /** SIGKILL, and a start at the same address. */
  abstract crash(): Promise<void>;
  protected abstract end(): Promise<void>;

  async dispose(): Promise<void> {
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

class Broadsheet extends ClientServer {
  #broker: BrokerProcess | undefined;

  static async create(settings: Readonly<Record<string, string>>): Promise<Broadsheet> {
    const server = new Broadsheet(settings);
    server.#broker = await BrokerProcess.start(server.dir, { config: settings });
    return server;
  }

  get address(): string {
    return this.#broker!.address;
  }

  async #again(): Promise<void> {
    const port = Number(this.address.split(':').at(-1));
    this.#broker = await BrokerProcess.start(this.dir, { config: this.settings, port });
  }

  async restart(): Promise<void> {
    await this.#broker!.stop();
    await this.#again();
  }

  async crash(): Promise<void> {
    await this.#broker!.kill();
    await this.#again();
  }

  protected async end(): Promise<void> {
    await this.#broker?.kill();
  }
}

class ApacheKafka extends ClientServer {
  #peer: KafkaPeer | undefined;

  static async create(settings: Readonly<Record<string, string>>): Promise<ApacheKafka> {
    const server = new ApacheKafka(settings);
    mkdirSync(server.dir, { recursive: true });
    // Two in a row: the second is its controller's.
    server.#peer = new KafkaPeer(server.dir, (await freePort()) & ~1);
    server.#peer.settings.push(...Object.entries(settings).map(([key, value]) => `${key}=${value}`));
    server.#peer.settings.push('group.initial.rebalance.delay.ms=0');
    await server.#peer.start();
    return server;
  }

  get address(): string {
    return this.#peer!.address;
  }

  async restart(): Promise<void> {
    await this.#peer!.stop();
    await this.#peer!.start();
  }

  async crash(): Promise<void> {
    await this.#peer!.kill();
    await this.#peer!.start();
  }

  protected async end(): Promise<void> {
    await this.#peer?.dispose();
  }
}
