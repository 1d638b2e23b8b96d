/**
 * One connection: its requests in the order they came. A request is worked on when all before it are answered, except
 * where the handlers' table says that it may overlap; answers always leave in order. A request that arrives behind a
 * waiting one hurries it. Frames that wait are copied out of the slab; past a bound, reading stops until they are done.
 */
import { beginResponse, finishResponse, readClientId } from '../protocol/api.ts';
import { kafkaCodeOf } from '../protocol/errors.ts';
import { API_FACTS } from '../protocol/generated/api-keys.ts';
import type { Part } from '../protocol/part.ts';
import type { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { BrokerContext } from './context.ts';
import type { HandlerRow } from './handlers/handler.ts';
import { addressAndPort } from './listeners.ts';
import { Request } from './request.ts';
import type { ConnectionId, Peer, Transport } from './transport.ts';

const API_VERSIONS = 18;
/** Answers in memory that may wait to leave on one connection before its next request is begun, bytes: a peer that asks and
 * does not read costs no more. */
const MAX_UNSENT_BYTES = 256 * 1024;

/** What a connection needs of its broker. */
export interface ConnectionHost {
  readonly transport: Transport;
  readonly handlers: ReadonlyMap<number, HandlerRow>;
  readonly context: BrokerContext;
  readonly log: Logger;
  /** Shared by all requests: used up before the call that fills them returns. */
  readonly reader: Reader;
  readonly writer: Writer;
  /** Frames that may wait on one connection, and their bytes. */
  readonly maxWaitingRequests: number;
  readonly maxWaitingBytes: number;
  /** An answer was given outside of a tick: see that it is sent. */
  requestTickEnd(): void;
  /** Whether this pass has worked long enough: what is not begun yet goes on in another one, after others were heard. */
  passIsOver(): boolean;
  /** Calls `resume` in another pass; once, however often it is asked. */
  postpone(resume: () => void): void;
}

export class Connection {
  readonly id: ConnectionId;
  readonly peer: Peer;
  readonly host: ConnectionHost;
  /** Who is connected; the authorisation column will ask about it. */
  readonly principal = 'User:ANONYMOUS';
  open = true;
  /** Begun and not answered to the transport yet, in order. */
  readonly #active: Request[] = [];
  readonly #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #reading = true;
  /** Bytes of answers handed to the transport since it was last asked what waits. */
  #answered = 0;
  /** The transport will say when enough has left. */
  #backedUp = false;
  #ended = false;
  #advancing = false;

  constructor(id: ConnectionId, peer: Peer, host: ConnectionHost) {
    this.id = id;
    this.peer = peer;
    this.host = host;
  }

  get peerName(): string {
    return addressAndPort(this.peer.remoteAddress, this.peer.remotePort);
  }

  /** One whole frame without its length. */
  onFrame(bytes: Uint8Array, start: number, end: number): void {
    if (!this.open) return;
    if (this.#waiting.length === 0 && this.#mayBegin(bytes, start, end)) {
      this.#begin(bytes, start, end, false);
      return;
    }
    // Buffer.from copies; slice() of a Buffer would not.
    this.#waiting.push(Buffer.from(bytes.subarray(start, end)));
    this.#waitingBytes += end - start;
    if (
      this.#reading &&
      (this.#waiting.length >= this.host.maxWaitingRequests ||
        this.#waitingBytes >= this.host.maxWaitingBytes)
    ) {
      this.#reading = false;
      this.host.transport.setReading(this.id, false);
    }
    this.#active.at(-1)?.hurry?.();
  }

  /** Begins what waits, as far as order allows. */
  advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    try {
      for (let frame = this.#waiting[0]; this.open && frame !== undefined; frame = this.#waiting[0]) {
        if (!this.#mayBegin(frame, 0, frame.length)) {
          this.#active.at(-1)?.hurry?.();
          // A hurried request may have been answered right there.
          if (!this.#mayBegin(frame, 0, frame.length)) break;
        }
        this.#waiting.shift();
        this.#waitingBytes -= frame.length;
        this.#begin(frame, 0, frame.length, true);
      }
    } finally {
      this.#advancing = false;
    }
    if (
      this.open &&
      !this.#reading &&
      this.#waiting.length <= this.host.maxWaitingRequests / 2 &&
      this.#waitingBytes <= this.host.maxWaitingBytes / 2
    ) {
      this.#reading = true;
      this.host.transport.setReading(this.id, true);
    }
  }

  readonly #resume = (): void => {
    this.advance();
    this.#closeIfDone();
  };

  /** What was sent to the peer has left, but for little. */
  onDrained(): void {
    this.#backedUp = false;
    this.#answered = 0;
    this.#resume();
  }

  /** Whether the peer leaves its answers unread, or others have waited long enough. */
  #mustRest(): boolean {
    if (this.#backedUp) return true;
    if (this.#answered > MAX_UNSENT_BYTES) {
      this.#backedUp = this.host.transport.isBackedUp(this.id, MAX_UNSENT_BYTES);
      if (this.#backedUp) return true;
      this.#answered = 0;
    }
    if (!this.host.passIsOver()) return false;
    this.host.postpone(this.#resume);
    return true;
  }

  #mayBegin(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#mustRest()) return false;
    const last = this.#active.at(-1);
    if (last === undefined) return true;
    if (!last.row.overlaps || !last.ordered || this.#active.length >= this.host.maxWaitingRequests)
      return false;
    if (end - start < 2) return false;
    const key = ((bytes[start]! << 24) >> 16) | bytes[start + 1]!;
    return this.host.handlers.get(key)?.overlaps === true;
  }

  #begin(bytes: Uint8Array, start: number, end: number, owned: boolean): void {
    const request = this.#parse(bytes, start, end, owned);
    if (request === undefined) return;
    this.#active.push(request);
    // Whatever it stages is written at a tick's end, also when it begins outside of a tick.
    this.host.requestTickEnd();
    let running: void | Promise<void>;
    try {
      running = request.row.handle(request, this.host.context);
    } catch (error) {
      this.fail(request, error);
      return;
    }
    running?.then(undefined, (error: unknown) => this.fail(request, error));
  }

  /** Reads the header; refuses the connection and returns undefined when it names nothing that is served. */
  #parse(bytes: Uint8Array, start: number, end: number, owned: boolean): Request | undefined {
    const reader = this.host.reader;
    reader.reset(bytes, start, end);
    let key = -1;
    let version = -1;
    try {
      key = reader.int16();
      version = reader.int16();
      const row = this.host.handlers.get(key);
      const facts = API_FACTS[key];
      if (row === undefined || facts === undefined) {
        const known = facts === undefined ? 'unknown API' : `API ${facts.name} is not served; it has`;
        this.refuse(`${known} key ${key}`, { apiKey: key, apiVersion: version });
        return undefined;
      }
      if ((version < row.served[0] || version > row.served[1]) && key !== API_VERSIONS) {
        const range = `${row.served[0]} to ${row.served[1]}`;
        this.refuse(`unsupported version ${version} of ${row.name} (served: ${range})`, {
          apiKey: key,
          apiVersion: version,
        });
        return undefined;
      }
      const correlationId = reader.int32();
      const clientId = readClientId(reader, facts.requestHeaderVersion(version)) ?? '';
      return new Request(
        this,
        row,
        { version, correlationId, clientId },
        { bytes, bodyStart: reader.position, end, owned },
      );
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      this.refuse(`a request header that does not parse: ${error.message}`, {
        apiKey: key,
        apiVersion: version,
      });
      return undefined;
    }
  }

  /** Logs one line and closes at once: what Kafka does with bytes that it cannot take for a request. */
  refuse(cause: string, facts: object = {}): void {
    if (!this.open) return;
    this.host.log.warn(
      { peer: this.peerName, listener: this.peer.listener, ...facts },
      `closing the connection of ${this.peerName}: ${cause}`,
    );
    this.close();
  }

  /** Closes after the answers given so far have left. */
  close(): void {
    if (!this.open) return;
    this.#release();
    this.host.transport.closeConnection(this.id, true);
    this.host.requestTickEnd();
  }

  /** The peer sends nothing more, but may still read: what it asked for is answered, then the connection closes. */
  onEnd(): void {
    this.#ended = true;
    this.#active.at(-1)?.hurry?.();
    this.#closeIfDone();
  }

  #closeIfDone(): void {
    if (this.#ended && this.#active.length === 0 && this.#waiting.length === 0) this.close();
  }

  /** The transport closed it. */
  onClose(): void {
    if (this.open) this.#release();
  }

  #release(): void {
    this.open = false;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    for (const request of this.#active.splice(0)) {
      request.state = 'done';
      request.abandon?.();
    }
  }

  /** A handler threw, or its promise was rejected. */
  fail(request: Request, error: unknown): void {
    if (!this.open) return;
    const { row, version } = request;
    if (error instanceof BroadsheetError && error.code === 'MALFORMED') {
      this.refuse(`a request (${row.name} version ${version}) whose body does not parse: ${error.message}`, {
        apiKey: row.key,
        apiVersion: version,
        clientId: request.clientId,
      });
      return;
    }
    this.host.log.error(
      { peer: this.peerName, api: row.name, version, error: error instanceof Error ? error.stack : error },
      `${row.name} failed: ${error instanceof Error ? error.message : String(error)}`,
    );
    if (request.state !== 'running') return;
    const { failure } = row;
    if (failure === undefined) {
      this.close();
      return;
    }
    request.abandon?.();
    const message = error instanceof BroadsheetError ? error.message : 'internal error';
    this.reply(request, (writer) => failure(writer, version, kafkaCodeOf(error), message));
  }

  #beginAnswer(request: Request): Writer {
    const writer = this.host.writer;
    writer.reset();
    const { row, version, correlationId } = request;
    beginResponse(writer, correlationId, API_FACTS[row.key]!.responseHeaderVersion(version));
    return writer;
  }

  reply(request: Request, write: (writer: Writer) => void): void {
    if (!this.open) return;
    const writer = this.#beginAnswer(request);
    write(writer);
    finishResponse(writer, 0);
    this.#finish(request, writer.slice(0, writer.position));
  }

  replyParts(request: Request, encode: (writer: Writer) => Part[]): void {
    if (!this.open) return;
    if (this.#active[0] !== request) throw new Error('an answer in parts out of order');
    const writer = this.#beginAnswer(request);
    const parts = encode(writer);
    let length = 0;
    for (const part of parts) length += part.length;
    // The first part is the Writer's memory from its start on.
    writer.patchInt32(0, length - 4);
    request.state = 'done';
    for (const part of parts) if (part instanceof Uint8Array) this.#answered += part.length;
    this.host.transport.send(this.id, parts);
    this.#active.shift();
    this.#settle();
  }

  noReply(request: Request): void {
    if (this.open) this.#finish(request, undefined);
  }

  #finish(request: Request, answer: Uint8Array | undefined): void {
    if (request.state !== 'running') throw new Error(`a second answer to one ${request.row.name} request`);
    if (this.#active[0] !== request) {
      request.state = 'held';
      request.heldAnswer = answer === undefined ? undefined : Buffer.from(answer);
      return;
    }
    request.state = 'done';
    this.#send(answer);
    this.#active.shift();
    this.#settle();
  }

  #send(answer: Uint8Array | undefined): void {
    if (answer === undefined) return;
    this.#answered += answer.length;
    this.host.transport.send(this.id, [answer]);
  }

  /** Sends what was held behind the request that is done, then goes on. */
  #settle(): void {
    for (let next = this.#active[0]; next?.state === 'held'; next = this.#active[0]) {
      next.state = 'done';
      this.#send(next.heldAnswer);
      this.#active.shift();
    }
    this.host.requestTickEnd();
    this.advance();
    this.#closeIfDone();
  }
}
