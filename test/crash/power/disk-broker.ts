/** A whole broker on a folder, driven by a FileJournal: requests are functions, the clock is the test's, and nothing happens to a
 * file before the journal lets it. */
import fs from 'node:fs';
import { BrokerInstance } from '../../../src/broker/broker.ts';
import type { Api } from '../../../src/client/apis.ts';
import { BrokerConfig } from '../../../src/config/broker-config.ts';
import { cleanSegments } from '../../../src/log/cleaner-pass.ts';
import type { LogEngine } from '../../../src/log/log.ts';
import type { FileRange, Part } from '../../../src/protocol/part.ts';
import type { VirtualClock } from '../../../src/runtime/clock.ts';
import { FakeTransport } from '../../broker/fake-transport.ts';
import { requestFrame, responseBody, TestLogger } from '../../broker/test-broker.ts';
import type { FileJournal } from './file-journal.ts';

function bytesOf({ source, segment, position, length }: FileRange): Uint8Array {
  const held = source.hold(segment);
  try {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, fs.readSync(held.fd, bytes, 0, length, position));
  } finally {
    held.release();
  }
}

/** Knows how many events there were when each answer left. */
class DiskTransport extends FakeTransport {
  readonly sentAt = new Map<number, number>();
  readonly #position: () => number;

  constructor(position: () => number) {
    super(bytesOf);
    this.#position = position;
  }

  override send(connection: number, parts: readonly Part[]): void {
    super.send(connection, parts);
    this.sentAt.set(connection, this.#position());
  }
}

export interface Answer<T> {
  readonly body: T;
  /** How many events of the journal there were when it left. */
  readonly position: number;
}

export interface DiskBrokerOptions {
  readonly dataDir: string;
  readonly engine: LogEngine;
  readonly clock: VirtualClock;
  readonly journal: FileJournal;
  readonly config: Record<string, string>;
}

export class DiskBroker {
  readonly journal: FileJournal;
  readonly clock: VirtualClock;
  readonly logger = new TestLogger();
  readonly #transport: DiskTransport;
  #broker!: BrokerInstance;

  private constructor({ journal, clock }: DiskBrokerOptions) {
    this.journal = journal;
    this.clock = clock;
    this.#transport = new DiskTransport(() => journal.position);
    // A coordinator's topic that could not be made says so after a second.
    journal.whenIdle = () => clock.advance(1000);
  }

  static async start(options: DiskBrokerOptions): Promise<DiskBroker> {
    const test = new DiskBroker(options);
    const { dataDir, engine, clock, config } = options;
    test.#broker = await test.journal.until(
      BrokerInstance.start({
        ...{ dataDir, engine, clock },
        config: new BrokerConfig(
          new Map(Object.entries({ listeners: 'PLAINTEXT://127.0.0.1:9092', ...config })),
        ),
        transport: test.#transport,
        log: test.logger,
        cleaner: { clean: (job) => cleanSegments(job, () => {}), close: async () => {} },
      }),
    );
    return test;
  }

  /** Sends requests in one tick, each over a connection of its own; gives what waits for each answer. */
  send<Request, Response>(
    api: Api<Request, Response>,
    version: number,
    bodies: readonly Request[],
  ): Promise<Answer<Response>>[] {
    const peers = bodies.map(() => this.#transport.connect());
    this.#transport.tick(
      ...bodies.map((body, i) => {
        const frame = requestFrame(api.key, version, 1, (writer) => api.write(writer, version, body));
        return [peers[i]!, frame] as const;
      }),
    );
    return peers.map(async (peer) => {
      while (peer.received.length === 0) {
        if (peer.closed !== undefined) throw new Error(`the connection was closed: ${this.log}`);
        await new Promise((resolve) => setImmediate(resolve));
      }
      const position = this.#transport.sentAt.get(peer.id)!;
      this.#transport.hangUp(peer);
      return { body: api.read(responseBody(peer.received[0]!, api.key, version), version), position };
    });
  }

  ask<Request, Response>(
    api: Api<Request, Response>,
    version: number,
    body: Request,
  ): Promise<Answer<Response>> {
    return this.send(api, version, [body])[0]!;
  }

  get log(): string {
    return JSON.stringify(this.logger.lines.filter(({ level }) => level !== 'debug').slice(-20));
  }

  async close(): Promise<void> {
    await this.journal.until(this.#broker.close());
  }
}
