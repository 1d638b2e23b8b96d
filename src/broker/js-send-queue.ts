/**
 * What waits to leave on one connection of the JS transport, in order: bytes, copied into pooled buffers, and ranges of
 * files, which cost nothing until their turn comes. Ranges are read ahead by Node's threads, a bounded number of bytes of
 * them, and all that is ready leaves in one writev.
 */
import { read } from 'node:fs';
import type { Socket } from 'node:net';
import type { FileRange, HeldFile } from '../protocol/part.ts';
import type { BufferPool } from './buffer-pool.ts';

/** Sizes of buffers for answers; a longer answer lies in several. */
const CHUNK_BYTES = [4096, 32 * 1024, 256 * 1024] as const;
/** Of one read of a file. */
const PIECE_BYTES = 256 * 1024;
/** Of files, in memory or on the way there, per connection; and the number of reads. */
const AHEAD_BYTES = 512 * 1024;
const AHEAD_READS = 16;
/** Handed to the socket at once. */
const WRITE_BYTES = 1 << 20;

interface BytesItem {
  readonly data: Buffer;
  end: number;
}

/** A read under way, or what it gave. */
interface Piece {
  readonly data: Buffer;
  readonly length: number;
  readonly position: number;
  ready: boolean;
}

interface RangeItem {
  readonly file: HeldFile;
  /** What no read was begun for. */
  position: number;
  length: number;
  readonly pieces: Piece[];
  /** Reads under way: the file is held until there are none. */
  reading: number;
}

type Item = BytesItem | RangeItem;

export interface SendQueueHost {
  /** Something can be written, or all has been: write() is due. */
  onSendReady(): void;
  /** A file is shorter than promised, or cannot be read. */
  onSendFailed(error: Error): void;
}

export class JsSendQueue {
  readonly #host: SendQueueHost;
  readonly #pool: BufferPool;
  #items: Item[] = [];
  #bytes = 0;
  #memoryBytes = 0;
  /** Bytes and number of pieces, those that are being written included. */
  #ahead = 0;
  #reads = 0;
  /** What the socket has and may still need. */
  #writing: Buffer[] = [];
  #writingBytes = 0;
  #writingMemory = 0;
  #writingAhead = 0;
  #cleared = false;
  /** Of ranges, handed to the socket since the start. */
  copied = 0;
  sent = 0;

  constructor(host: SendQueueHost, pool: BufferPool) {
    this.#host = host;
    this.#pool = pool;
  }

  get empty(): boolean {
    return this.#items.length === 0 && this.#writing.length === 0;
  }

  /** Bytes that wait here or in the socket, ranges included. */
  bytes(socket: Socket): number {
    return this.#bytes + (socket.writableLength > 0 ? this.#writingBytes : 0);
  }

  /** The same, ranges not counted. */
  memoryBytes(socket: Socket): number {
    return this.#memoryBytes + (socket.writableLength > 0 ? this.#writingMemory : 0);
  }

  /** Copies bytes. */
  append(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#memoryBytes += bytes.length;
    let last = this.#items.at(-1);
    for (let at = 0; at < bytes.length; ) {
      if (last === undefined || !('end' in last) || last.end === last.data.length) {
        const want = Math.max(bytes.length - at, this.#memoryBytes);
        const size = CHUNK_BYTES.find((each) => each >= want) ?? CHUNK_BYTES[2];
        last = { data: this.#pool.take(size), end: 0 };
        this.#items.push(last);
      }
      const part = Math.min(bytes.length - at, last.data.length - last.end);
      last.data.set(part === bytes.length ? bytes : bytes.subarray(at, at + part), last.end);
      last.end += part;
      at += part;
    }
  }

  /** Throws CLOSED when the range's file is not open. */
  appendRange(range: FileRange): void {
    const file = range.source.hold(range.segment);
    this.#bytes += range.length;
    this.#items.push({ file, position: range.position, length: range.length, pieces: [], reading: 0 });
  }

  /** Hands to the socket what is ready, up to about 1 MiB, unless it still has something. */
  write(socket: Socket): void {
    if (this.#writing.length > 0) return;
    const views = this.#gather();
    if (views.length === 0) return;
    const last = views.length - 1;
    if (last > 0) socket.cork();
    for (let i = 0; i < last; i++) socket.write(views[i]!);
    socket.write(views[last]!, this.#onWritten);
    if (last > 0) socket.uncork();
  }

  readonly #onWritten = (error?: Error | null): void => {
    for (const buffer of this.#writing) this.#pool.give(buffer);
    this.#writing = [];
    this.#ahead -= this.#writingAhead;
    this.#writingBytes = this.#writingMemory = this.#writingAhead = 0;
    // After an error the socket says so itself.
    if (!error) this.#host.onSendReady();
  };

  /** Takes what is ready from the front; begins reads of what follows. */
  #gather(): Buffer[] {
    const views: Buffer[] = [];
    let done = 0;
    for (let at = 0; at < this.#items.length; at++) {
      const item = this.#items[at]!;
      const first = at === done;
      if ('end' in item) {
        if (!first || this.#writingBytes >= WRITE_BYTES) {
          if (this.#full) break;
          continue;
        }
        this.#take(views, item.data, item.end);
        this.#memoryBytes -= item.end;
        this.#writingMemory += item.end;
        done++;
        continue;
      }
      this.#readAhead(item);
      while (first && item.pieces[0]?.ready && this.#writingBytes < WRITE_BYTES) {
        const piece = item.pieces.shift()!;
        this.#take(views, piece.data, piece.length);
        this.#writingAhead += piece.length;
        this.copied += piece.length;
      }
      if (first && item.length === 0 && item.pieces.length === 0) {
        item.file.release();
        done++;
      } else if (this.#full) {
        break;
      }
    }
    if (done > 0) this.#items.splice(0, done);
    return views;
  }

  #take(views: Buffer[], data: Buffer, bytes: number): void {
    views.push(bytes === data.length ? data : data.subarray(0, bytes));
    this.#writing.push(data);
    this.#writingBytes += bytes;
    this.#bytes -= bytes;
    this.sent += bytes;
  }

  get #full(): boolean {
    return this.#ahead >= AHEAD_BYTES || this.#reads >= AHEAD_READS;
  }

  #readAhead(item: RangeItem): void {
    while (item.length > 0 && !this.#full) {
      const length = Math.min(item.length, PIECE_BYTES);
      const piece = { data: this.#pool.take(length), length, position: item.position, ready: false };
      item.pieces.push(piece);
      item.position += length;
      item.length -= length;
      this.#ahead += length;
      this.#read(item, piece, 0);
    }
  }

  #read(item: RangeItem, piece: Piece, from: number): void {
    this.#reads++;
    item.reading++;
    const left = piece.length - from;
    read(item.file.fd, piece.data, from, left, piece.position + from, (error, got) => {
      this.#reads--;
      item.reading--;
      if (this.#cleared) {
        this.#pool.give(piece.data);
        if (item.reading === 0) item.file.release();
      } else if (error !== null || got === 0) {
        item.file.failed?.();
        this.#host.onSendFailed(error ?? new Error('a file ends before its range'));
      } else if (got < left) {
        this.#read(item, piece, from + got);
      } else {
        piece.ready = true;
        this.#host.onSendReady();
      }
    });
  }

  /** Drops all that waits, for ever. */
  clear(): void {
    if (this.#cleared) return;
    this.#cleared = true;
    for (const item of this.#items) {
      if ('end' in item) {
        this.#pool.give(item.data);
        continue;
      }
      for (const piece of item.pieces) if (piece.ready) this.#pool.give(piece.data);
      if (item.reading === 0) item.file.release();
    }
    // What the socket has is left to the garbage collector: the kernel may still read it.
    this.#items = [];
    this.#writing = [];
    this.#bytes = this.#memoryBytes = this.#writingBytes = this.#writingMemory = 0;
  }
}
