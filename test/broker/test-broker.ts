/** A whole broker in memory, with a clock that a test moves, and requests as functions. */
import { BrokerInstance } from '../../src/broker/broker.ts';
import { BrokerConfig } from '../../src/config/broker-config.ts';
import { API_FACTS } from '../../src/protocol/generated/api-keys.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import type { Logger } from '../../src/runtime/logging.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import { type FakePeer, FakeTransport } from './fake-transport.ts';

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: object;
  readonly message: string;
}

export class TestLogger implements Logger {
  readonly lines: LogLine[] = [];

  debug(fields: object, message: string): void {
    this.lines.push({ level: 'debug', fields, message });
  }
  info(fields: object, message: string): void {
    this.lines.push({ level: 'info', fields, message });
  }
  warn(fields: object, message: string): void {
    this.lines.push({ level: 'warn', fields, message });
  }
  error(fields: object, message: string): void {
    this.lines.push({ level: 'error', fields, message });
  }
  child(): Logger {
    return this;
  }

  /** Messages of a level, in order. */
  of(level: LogLine['level']): string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }
}

/** A request frame: header and body. */
export function requestFrame(
  key: number,
  version: number,
  correlationId: number,
  body: (writer: Writer) => void,
  clientId: string | null = 'test',
): Uint8Array {
  const writer = new Writer();
  writer.int16(key);
  writer.int16(version);
  writer.int32(correlationId);
  writer.nullableString(clientId);
  if ((API_FACTS[key]?.requestHeaderVersion(version) ?? 1) >= 2) writer.int8(0);
  body(writer);
  return writer.bytes().slice();
}

/** The body of an answer, past its header. */
export function responseBody(frame: Uint8Array, key: number, version: number): Reader {
  const reader = new Reader(frame);
  reader.int32();
  if (API_FACTS[key]!.responseHeaderVersion(version) >= 1) reader.int8();
  return reader;
}

export class TestBroker {
  readonly engine: MemoryEngine;
  readonly transport: FakeTransport;
  readonly clock = new VirtualClock();
  readonly logger = new TestLogger();
  broker!: BrokerInstance;
  #correlationId = 1;

  private constructor(engine: MemoryEngine) {
    this.engine = engine;
    this.transport = new FakeTransport((range) => engine.bytesOf(range));
  }

  static async start(config: Record<string, string> = {}, engine = new MemoryEngine()): Promise<TestBroker> {
    const test = new TestBroker(engine);
    const texts = new Map(Object.entries({ listeners: 'PLAINTEXT://127.0.0.1:9092', ...config }));
    test.broker = await BrokerInstance.start({
      dataDir: '/data',
      config: new BrokerConfig(texts),
      engine,
      transport: test.transport,
      clock: test.clock,
      log: test.logger,
    });
    return test;
  }

  /** A frame with the next correlation id. */
  frame(key: number, version: number, body: (writer: Writer) => void): Uint8Array {
    return requestFrame(key, version, this.#correlationId++, body);
  }

  /** Sends one request in a tick of its own and waits for its answer. */
  async ask<T>(
    peer: FakePeer,
    key: number,
    version: number,
    body: (writer: Writer) => void,
    read: (reader: Reader, version: number) => T,
  ): Promise<T> {
    const before = peer.received.length;
    this.transport.tick([peer, this.frame(key, version, body)]);
    await this.answers(peer, before + 1);
    return read(responseBody(peer.received[before]!, key, version), version);
  }

  /** Waits until a peer has received so many frames in all. */
  async answers(peer: FakePeer, count: number): Promise<void> {
    for (let turns = 0; peer.received.length < count; turns++) {
      if (peer.closed !== undefined) {
        throw new Error(`the connection was closed (${peer.closed}): ${JSON.stringify(this.logger.lines)}`);
      }
      if (turns > 60_000) throw new Error(`${peer.received.length} of ${count} answers came`);
      // What is read from a file at first use takes longer than turns of the loop.
      await new Promise((resolve) => (turns < 10_000 ? setImmediate(resolve) : setTimeout(resolve, 1)));
    }
  }

  async settle(turns = 20): Promise<void> {
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  close(): Promise<void> {
    return this.broker.close();
  }
}
