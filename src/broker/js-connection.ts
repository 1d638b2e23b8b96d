/** One connection of the JS transport: a socket of node:net, what it received, and what waits to leave. */
import type { Socket } from 'node:net';
import type { BufferPool } from './buffer-pool.ts';
import { FrameStream } from './frame-stream.ts';
import { JsSendQueue } from './js-send-queue.ts';
import type { CloseReason, ConnectionId, Peer } from './transport.ts';

/** Received and not handed out, past which a connection is not read. */
const MAX_WAITING_BYTES = 1 << 20;

const RESETS: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ECONNABORTED']);

export interface JsConnectionHost {
  readonly maxFrameBytes: number;
  readonly maxQueuedBytes: number;
  readonly framePool: BufferPool;
  readonly sendPool: BufferPool;
  /** Counts bytes that came; false: enough for this pass, of all connections. */
  received(bytes: number): boolean;
  monotonic(): number;
  markReady(connection: JsConnection): void;
  markDirty(connection: JsConnection): void;
  onDrained(connection: JsConnection): void;
  onGone(connection: JsConnection, reason: CloseReason): void;
}

export class JsConnection {
  readonly id: ConnectionId;
  readonly peer: Peer;
  readonly #host: JsConnectionHost;
  readonly #socket: Socket;
  readonly frames: FrameStream;
  readonly queue: JsSendQueue;
  /** Is in the transport's lists. */
  ready = false;
  dirty = false;
  /** The peer's FIN was read; it was told. */
  ended = false;
  endTold = false;
  draining = false;
  gone = false;
  activeAt: number;
  #reason: CloseReason = 'local';
  #refused = false;
  /** The owner wants frames. */
  #reading = true;
  /** Too much waits to be sent. */
  #held = false;
  #flowing = false;
  #finishing = false;
  /** onDrained is due at this many bytes in memory; -1: nobody asked. */
  #drainMark = -1;

  constructor(id: ConnectionId, listener: number, socket: Socket, host: JsConnectionHost) {
    this.id = id;
    this.#host = host;
    this.#socket = socket;
    this.peer = {
      listener,
      remoteAddress: socket.remoteAddress ?? '',
      remotePort: socket.remotePort ?? 0,
      localAddress: socket.localAddress ?? '',
      localPort: socket.localPort ?? 0,
    };
    this.frames = new FrameStream(host.maxFrameBytes, host.framePool);
    this.queue = new JsSendQueue(
      {
        onSendReady: () => {
          this.activeAt = host.monotonic();
          const { empty } = this.queue;
          if (!empty || this.draining || this.#held || this.#drainMark >= 0) host.markDirty(this);
        },
        onSendFailed: () => this.close('error'),
      },
      host.sendPool,
    );
    this.activeAt = host.monotonic();
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('end', () => {
      this.ended = true;
      host.markReady(this);
    });
    socket.on('error', (error: NodeJS.ErrnoException) =>
      this.close(RESETS.has(error.code ?? '') ? 'reset' : 'error'),
    );
    socket.on('close', () => this.close(this.ended ? 'peer' : 'reset'));
    if (socket.destroyed) this.close('reset');
    else this.updateFlow();
  }

  #onData(chunk: Buffer): void {
    this.activeAt = this.#host.monotonic();
    const more = this.#host.received(chunk.length);
    if (this.draining || this.#refused) return;
    this.frames.push(chunk);
    this.#host.markReady(this);
    if (!more || this.frames.waiting >= MAX_WAITING_BYTES) this.#flow(false);
  }

  #flow(flowing: boolean): void {
    if (flowing === this.#flowing) return;
    this.#flowing = flowing;
    if (flowing) this.#socket.resume();
    else this.#socket.pause();
  }

  /** Whether frames may be handed out. */
  get mayRead(): boolean {
    return this.#reading && !this.#held && !this.#refused && !this.draining && !this.gone;
  }

  /** Reads the socket, or lets it rest. */
  updateFlow(): void {
    if (this.gone || this.draining) return;
    this.#flow(this.mayRead && this.frames.waiting < MAX_WAITING_BYTES);
  }

  #goOn(): void {
    if (this.mayRead && (this.frames.waiting > 0 || (this.ended && !this.endTold)))
      this.#host.markReady(this);
    this.updateFlow();
  }

  setReading(reading: boolean): void {
    if (this.#reading === reading) return;
    this.#reading = reading;
    this.#goOn();
  }

  /** A bad frame came: nothing else is read, and the tick's end closes the connection. */
  refuse(): void {
    this.#refused = true;
    this.updateFlow();
  }

  isBackedUp(mark: number): boolean {
    if (this.queue.memoryBytes(this.#socket) <= mark) return false;
    this.#drainMark = mark;
    return true;
  }

  get queuedBytes(): number {
    return this.queue.bytes(this.#socket);
  }

  get memoryBytes(): number {
    return this.queue.memoryBytes(this.#socket);
  }

  /** Writes what is ready, and sees what follows from that. */
  write(): void {
    if (this.gone) return;
    this.queue.write(this.#socket);
    if (this.gone) return;
    const queued = this.queuedBytes;
    const { maxQueuedBytes } = this.#host;
    if (this.#held ? queued <= maxQueuedBytes / 2 : queued > maxQueuedBytes) {
      this.#held = !this.#held;
      this.#goOn();
    }
    if (this.#drainMark >= 0 && this.memoryBytes <= this.#drainMark) {
      this.#drainMark = -1;
      this.#host.onDrained(this);
    }
    if (this.draining && this.queue.empty) this.#finish();
  }

  /** Closes once all is sent; nothing is read any more. */
  drain(reason: CloseReason = this.ended ? 'peer' : 'local'): void {
    if (this.draining || this.gone) return;
    this.#flow(false);
    this.draining = true;
    this.#reason = reason;
    this.frames.discard();
    this.#host.markDirty(this);
  }

  /** What lies unread would turn the close into a reset, which may take the last answer with it: it is read first. */
  #finish(): void {
    if (this.#finishing) return;
    this.#finishing = true;
    this.#socket.end(() => {
      this.#flow(true);
      // A turn of the loop reads what is there.
      setImmediate(() => setImmediate(() => this.close(this.#reason)));
    });
  }

  /** At once. */
  close(reason: CloseReason): void {
    if (this.gone) return;
    this.gone = true;
    this.frames.discard();
    this.queue.clear();
    this.#socket.destroy();
    this.#host.onGone(this, this.draining ? this.#reason : reason);
  }
}
