/**
 * Frames out of the chunks that a socket gives: the receiving half of the JS transport.
 *
 * A frame that lies whole in one chunk is handed out where it lies. A piece of one is copied into a buffer that grows with
 * what arrived, never with what the peer said it would send, and that is lent to the tick once the frame is whole.
 */
import type { BufferPool } from './buffer-pool.ts';
import type { ConnectionId } from './transport.ts';

/** Longer pieces lie in buffers of the pool. */
const POOLED_BYTES = 16 * 1024;
const SMALLEST_PIECE = 64;
const BAD_FRAME_BYTES = 64;
const LENGTH_BYTES = 4;

/** Who takes the frames; what it throws is its own affair. */
export interface FrameSink {
  onFrame(connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void;
  onBadFrame(connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void;
  /** A buffer of the pool that holds a frame of this tick: goes back when the tick is over. */
  lend(buffer: Buffer): void;
}

export class FrameStream {
  readonly #maxFrameBytes: number;
  readonly #pool: BufferPool;
  /** Not looked at yet, from #at of the first one on. */
  #chunks: Buffer[] = [];
  #at = 0;
  #waiting = 0;
  /** The first #have bytes of a frame. */
  #piece: Buffer | undefined;
  #have = 0;
  #discarded = false;

  constructor(maxFrameBytes: number, pool: BufferPool) {
    this.#maxFrameBytes = maxFrameBytes;
    this.#pool = pool;
  }

  /** Bytes that take() has not looked at. */
  get waiting(): number {
    return this.#waiting;
  }

  /** All bytes that are held. */
  get bytes(): number {
    return this.#waiting + this.#have;
  }

  push(chunk: Buffer): void {
    if (this.#discarded) return;
    this.#chunks.push(chunk);
    this.#waiting += chunk.length;
  }

  /** Lets go of all, and takes nothing any more. May be called by the sink. */
  discard(): void {
    this.#discarded = true;
    this.#chunks = [];
    this.#waiting = 0;
    this.#dropPiece();
  }

  /** Hands out what is whole: up to maxFrames, and about maxBytes. Returns 'more' when it stopped at one of those, and 'bad'
   * behind a frame that was no frame. */
  take(sink: FrameSink, id: ConnectionId, maxFrames: number, maxBytes: number): 'all' | 'more' | 'bad' {
    let frames = 0;
    const until = this.#waiting - maxBytes;
    for (;;) {
      const chunk = this.#chunks[0];
      if (chunk === undefined) return 'all';
      if (frames === maxFrames || this.#waiting <= until) return 'more';
      if (this.#piece !== undefined) {
        const total = this.#fill(chunk);
        if (total < 0) return this.#refuse(sink, id, this.#piece, 0, this.#have);
        if (this.#have === total) {
          frames++;
          this.#giveWhole(sink, id, total);
        }
        continue;
      }
      const start = this.#at;
      const left = chunk.length - start;
      if (left >= LENGTH_BYTES) {
        const length = chunk.readInt32BE(start);
        if (!this.#isGood(length)) {
          return this.#refuse(sink, id, chunk, start, start + Math.min(left, BAD_FRAME_BYTES));
        }
        if (left - LENGTH_BYTES >= length) {
          frames++;
          this.#consume(chunk, LENGTH_BYTES + length);
          sink.onFrame(id, chunk, start + LENGTH_BYTES, start + LENGTH_BYTES + length);
          continue;
        }
      }
      this.#piece = this.#buffer(left >= LENGTH_BYTES ? chunk.readInt32BE(start) + LENGTH_BYTES : 0, left);
      this.#copy(chunk, left);
    }
  }

  #isGood(length: number): boolean {
    return length > 0 && length <= this.#maxFrameBytes;
  }

  /** Moves what belongs to the frame out of a chunk into the piece. Returns the frame's size with its length; 0 while that
   * is unknown, -1 when it is bad: then the piece holds what is to be shown of it. */
  #fill(chunk: Buffer): number {
    if (this.#have < LENGTH_BYTES) {
      this.#copy(chunk, Math.min(LENGTH_BYTES - this.#have, chunk.length - this.#at));
      if (this.#have < LENGTH_BYTES) return 0;
    }
    const left = this.#chunks[0] === chunk ? chunk.length - this.#at : 0;
    const length = this.#piece!.readInt32BE(0);
    if (!this.#isGood(length)) {
      this.#copy(chunk, Math.min(left, BAD_FRAME_BYTES - this.#have));
      return -1;
    }
    const total = LENGTH_BYTES + length;
    const wanted = Math.min(total - this.#have, left);
    if (this.#have + wanted > this.#piece!.length) {
      const larger = this.#buffer(total, this.#have + wanted);
      this.#piece!.copy(larger, 0, 0, this.#have);
      this.#release(this.#piece!);
      this.#piece = larger;
    }
    this.#copy(chunk, wanted);
    return total;
  }

  /** Room for `bytes` of a frame of `total` (0: not known yet) and for some that follow. */
  #buffer(total: number, bytes: number): Buffer {
    const want = Math.max(Math.min(total, 4 * bytes), bytes, SMALLEST_PIECE);
    return want < POOLED_BYTES ? Buffer.allocUnsafeSlow(want) : this.#pool.take(want);
  }

  #release(buffer: Buffer): void {
    if (buffer.length >= POOLED_BYTES) this.#pool.give(buffer);
  }

  #copy(chunk: Buffer, bytes: number): void {
    chunk.copy(this.#piece!, this.#have, this.#at, this.#at + bytes);
    this.#have += bytes;
    this.#consume(chunk, bytes);
  }

  #consume(chunk: Buffer, bytes: number): void {
    this.#at += bytes;
    this.#waiting -= bytes;
    if (this.#at < chunk.length || bytes === 0) return;
    this.#chunks.shift();
    this.#at = 0;
  }

  #giveWhole(sink: FrameSink, id: ConnectionId, total: number): void {
    const piece = this.#piece!;
    this.#piece = undefined;
    this.#have = 0;
    if (piece.length >= POOLED_BYTES) sink.lend(piece);
    sink.onFrame(id, piece, LENGTH_BYTES, total);
  }

  #refuse(sink: FrameSink, id: ConnectionId, bytes: Buffer, start: number, end: number): 'bad' {
    // A copy, since what is held goes.
    const shown = Buffer.from(bytes.subarray(start, end));
    this.discard();
    sink.onBadFrame(id, shown, 0, shown.length);
    return 'bad';
  }

  #dropPiece(): void {
    if (this.#piece !== undefined) this.#release(this.#piece);
    this.#piece = undefined;
    this.#have = 0;
  }
}
