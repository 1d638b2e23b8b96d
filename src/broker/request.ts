/** One request on its way through the broker: header, body, and the one answer that it gets. */
import type { Part } from '../protocol/part.ts';
import type { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';
import type { Connection } from './connection.ts';
import type { HandlerRow } from './handlers/handler.ts';

/**
 * - running: a handler works on it
 * - held: answered, but an earlier request of its connection is not
 * - done: its answer has been handed to the transport, or it has none
 */
type State = 'running' | 'held' | 'done';

export class Request {
  readonly connection: Connection;
  readonly row: HandlerRow;
  readonly version: number;
  readonly correlationId: number;
  readonly clientId: string;
  /** The frame. Valid until the tick ends unless keep() was called. */
  bytes: Uint8Array;
  /** Where the body begins and the frame ends in `bytes`. */
  bodyStart: number;
  bodyEnd: number;
  state: State = 'running';
  /** A later request that may overlap this one can be begun: what has to happen in order has happened. */
  ordered = false;
  /** Asked when another request arrives behind this one while it waits: answer now, with what there is. */
  hurry: (() => void) | undefined;
  /** Called when the connection closes before the answer: lets go of what waits. */
  abandon: (() => void) | undefined;
  /** The answer of a request that is held; undefined for one without an answer. */
  heldAnswer: Uint8Array | undefined;
  #owned: boolean;

  constructor(
    connection: Connection,
    row: HandlerRow,
    header: { version: number; correlationId: number; clientId: string },
    frame: { bytes: Uint8Array; bodyStart: number; end: number; owned: boolean },
  ) {
    this.connection = connection;
    this.row = row;
    this.version = header.version;
    this.correlationId = header.correlationId;
    this.clientId = header.clientId;
    this.bytes = frame.bytes;
    this.bodyStart = frame.bodyStart;
    this.bodyEnd = frame.end;
    this.#owned = frame.owned;
  }

  get open(): boolean {
    return this.state === 'running' && this.connection.open;
  }

  /** The body, from its first byte, in a reader that all requests of the broker share: decode at once. */
  body(): Reader {
    const reader = this.connection.host.reader;
    reader.reset(this.bytes, this.bodyStart, this.bodyEnd);
    return reader;
  }

  /** Copies the frame so that it outlives the tick; bytes, bodyStart and bodyEnd then point into the copy. Slices taken
   * from body() earlier still point into the slab. */
  keep(): void {
    if (this.#owned) return;
    this.bytes = Buffer.from(this.bytes.subarray(this.bodyStart, this.bodyEnd));
    this.bodyEnd -= this.bodyStart;
    this.bodyStart = 0;
    this.#owned = true;
  }

  /** Answers with the body that `write` writes. Second answers are a programmer's error. */
  reply(write: (writer: Writer) => void): void {
    this.connection.reply(this, write);
  }

  /** Answers in parts, file ranges among them. `encode` writes the body behind the header that the writer holds, and
   * returns all parts from position 0 on; they are valid during the call. */
  replyParts(encode: (writer: Writer) => Part[]): void {
    this.connection.replyParts(this, encode);
  }

  /** Ends a request that gets no answer (acks=0). */
  noReply(): void {
    this.connection.noReply(this);
  }

  /** What has to happen in the order of arrival has happened; requests that overlap may begin. */
  markOrdered(): void {
    this.ordered = true;
    this.connection.host.requestTickEnd();
    this.connection.advance();
  }
}
