/**
 * `transport=js`: sockets of node:net. The same ticks and bounds as the native transport, where Node lets it.
 *
 * What sockets receive while the event loop polls is collected; setImmediate, which comes right behind, hands it out in one
 * pass and then ends the tick. Of one connection a pass hands out 256 frames or 1 MiB, in all 8 MiB; those that were not
 * served come first in the next one. Files are read by Node's threads, so that no disk stops the loop. libuv accepts one
 * connection in each turn of the loop: while they come, frames wait, or a crowd would be let in at the pace of full passes.
 *
 * What Node does not let us: reading sockets into memory of our own (each read allocates up to 64 KiB), sendfile, the sizes
 * of the kernel's buffers, and leaving connections with the kernel while accepting is off or no descriptor is left.
 */
import type { Part } from '../protocol/part.ts';
import { systemClock } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { BufferPool } from './buffer-pool.ts';
import type { FrameSink } from './frame-stream.ts';
import { JsConnection, type JsConnectionHost } from './js-connection.ts';
import { JsListener } from './js-listener.ts';
import type {
  CloseReason,
  ConnectionId,
  Transport,
  TransportHandler,
  TransportOptions,
  TransportStats,
} from './transport.ts';

const CONNECTION_FRAMES = 256;
const CONNECTION_BYTES = 1 << 20;
const PASS_BYTES = 8 << 20;
/** Turns in a row that may bring a connection each before frames are handed out again. */
const ACCEPTING_TURNS = 64;
/** More than this in memory, beyond the bound on what is queued, is a peer that takes no answer while its requests are
 * answered. */
const OVERFLOW_BYTES = 64 << 20;
const KEPT_FRAME_BYTES = 64 << 20;
const KEPT_SEND_BYTES = 12 << 20;

type TransportEvent = (handler: TransportHandler) => void;

/** An error of the handler is the process's affair, and costs only the event in which it came. */
function guarded(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

export function jsTransport(options: TransportOptions): Transport {
  return new JsTransport(options);
}

class JsTransport implements Transport, JsConnectionHost, FrameSink {
  readonly name = 'js';
  readonly maxFrameBytes: number;
  readonly maxQueuedBytes: number;
  readonly framePool = new BufferPool(14, KEPT_FRAME_BYTES);
  readonly sendPool = new BufferPool(12, KEPT_SEND_BYTES);
  #handler: TransportHandler | undefined;
  readonly #listeners: JsListener[] = [];
  readonly #connections = new Map<ConnectionId, JsConnection>();
  #lastId = 0;
  /** To be told in the next pass, in order. */
  #events: TransportEvent[] = [];
  #ready: JsConnection[] = [];
  #dirty: JsConnection[] = [];
  readonly #refused: JsConnection[] = [];
  readonly #lent: Buffer[] = [];
  #scheduled = false;
  #ticking = false;
  #flushScheduled = false;
  #received = 0;
  #receivedInPass = 0;
  #acceptingTurns = 0;
  /** Of connections that are gone. */
  #sent = 0;
  #copied = 0;
  #closing: Promise<void> | undefined;
  #closed = false;
  #onEmpty: (() => void) | undefined;
  #onQuiet: (() => void) | undefined;

  constructor(options: TransportOptions) {
    this.maxFrameBytes = options.maxFrameBytes;
    this.maxQueuedBytes = options.maxQueuedBytes;
  }

  start(handler: TransportHandler): void {
    if (this.#closed) throw new BroadsheetError('CLOSED', 'start: the transport is closed');
    this.#handler = handler;
    this.#schedule();
  }

  async listen(host: string, port: number): Promise<{ listener: number; port: number }> {
    if (this.#closed) throw new BroadsheetError('CLOSED', 'listen: the transport is closed');
    const index = this.#listeners.length;
    const listener = new JsListener({
      onConnection: () => this.#schedule(),
      onStarved: (error) => this.#tell((handler) => handler.onAcceptFailed?.(index, error)),
    });
    this.#listeners.push(listener);
    const bound = await listener.open(host, port);
    if (this.#closed) {
      listener.close();
      throw new BroadsheetError('CLOSED', 'listen: the transport was closed');
    }
    return { listener: index, port: bound };
  }

  setAccepting(listener: number, accepting: boolean): void {
    this.#listeners[listener]?.setAccepting(accepting);
  }

  closeListener(listener: number): void {
    this.#listeners[listener]?.close();
  }

  send(id: ConnectionId, parts: readonly Part[]): void {
    const connection = this.#connections.get(id);
    if (connection === undefined || connection.draining) return;
    if (connection.memoryBytes > this.maxQueuedBytes + OVERFLOW_BYTES) {
      connection.close('send-overflow');
      return;
    }
    for (const part of parts) {
      if (part instanceof Uint8Array) {
        connection.queue.append(part);
        continue;
      }
      try {
        connection.queue.appendRange(part);
      } catch {
        connection.close('error');
        return;
      }
    }
    this.#markDirty(connection);
    if (this.#ticking || this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => {
      if (this.#flushScheduled) this.flush();
    });
  }

  flush(): void {
    this.#flushScheduled = false;
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const connection of dirty) {
      connection.dirty = false;
      connection.write();
    }
  }

  isBackedUp(id: ConnectionId, mark: number): boolean {
    return this.#connections.get(id)?.isBackedUp(mark) ?? false;
  }

  setReading(id: ConnectionId, reading: boolean): void {
    this.#connections.get(id)?.setReading(reading);
  }

  closeConnection(id: ConnectionId, drain: boolean): void {
    const connection = this.#connections.get(id);
    if (connection === undefined) return;
    if (drain) connection.drain();
    else connection.close(connection.ended ? 'peer' : 'local');
  }

  closeIdle(idleMs: number): void {
    const before = this.monotonic() - idleMs;
    for (const connection of this.#connections.values()) {
      if (connection.activeAt <= before) connection.close('idle');
    }
    this.framePool.trim();
    this.sendPool.trim();
  }

  stats(): TransportStats {
    let bytesQueued = 0;
    let bytesPartial = 0;
    let bytesSent = this.#sent;
    let bytesByCopy = this.#copied;
    for (const { queue, frames, queuedBytes } of this.#connections.values()) {
      bytesQueued += queuedBytes;
      bytesPartial += frames.bytes;
      bytesSent += queue.sent;
      bytesByCopy += queue.copied;
    }
    return {
      connections: this.#connections.size,
      bytesReceived: this.#received,
      bytesSent,
      bytesBySendfile: 0,
      bytesByCopy,
      bytesQueued,
      bytesPartial,
      buffersAllocated: this.framePool.allocated,
    };
  }

  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    for (const listener of this.#listeners) listener.close();
    if (this.#handler !== undefined && drainMs > 0 && this.#connections.size > 0) {
      for (const connection of this.#connections.values()) connection.drain();
      await new Promise<void>((resolve) => {
        const timer = systemClock.setTimer(drainMs, resolve);
        this.#onEmpty = () => {
          timer.cancel();
          resolve();
        };
      });
    }
    this.#closed = true;
    for (const connection of this.#connections.values()) connection.close('local');
    if (this.#handler === undefined) return;
    await new Promise<void>((resolve) => {
      this.#onQuiet = resolve;
      this.#schedule();
    });
  }

  // --- for its connections ---

  monotonic(): number {
    return systemClock.monotonic();
  }

  received(bytes: number): boolean {
    this.#received += bytes;
    this.#receivedInPass += bytes;
    return this.#receivedInPass < PASS_BYTES;
  }

  markReady(connection: JsConnection): void {
    if (connection.ready || connection.gone) return;
    connection.ready = true;
    this.#ready.push(connection);
    this.#schedule();
  }

  markDirty(connection: JsConnection): void {
    this.#markDirty(connection);
    this.#schedule();
  }

  #markDirty(connection: JsConnection): void {
    if (connection.dirty || connection.gone) return;
    connection.dirty = true;
    this.#dirty.push(connection);
  }

  onDrained({ id }: JsConnection): void {
    this.#tell((handler) => handler.onDrained?.(id));
  }

  onGone({ id, queue }: JsConnection, reason: CloseReason): void {
    this.#connections.delete(id);
    this.#sent += queue.sent;
    this.#copied += queue.copied;
    this.#tell((handler) => handler.onClose(id, reason));
    if (this.#connections.size === 0) this.#onEmpty?.();
  }

  // --- the tick ---

  #tell(event: TransportEvent): void {
    this.#events.push(event);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#scheduled = false;
    const handler = this.#handler;
    if (handler === undefined) return;
    this.#ticking = true;
    const heard = this.#hear(handler);
    if (heard) guarded(() => handler.onTickEnd());
    // Behind the microtasks that the tick made, and those that they make.
    queueMicrotask(() => process.nextTick(() => this.#finish()));
  }

  /** Hands out what came. Returns whether there was anything. */
  #hear(handler: TransportHandler): boolean {
    let heard = this.#events.length > 0;
    const events = this.#events;
    this.#events = [];
    for (const event of events) guarded(() => event(handler));
    let accepted = false;
    for (const [index, listener] of this.#listeners.entries()) {
      for (let socket = listener.take(); socket !== undefined; socket = listener.take()) {
        heard = accepted = true;
        const connection = new JsConnection(++this.#lastId, index, socket, this);
        if (!connection.gone) this.#connections.set(connection.id, connection);
        guarded(() => handler.onAccept(connection.id, connection.peer));
      }
    }
    if (accepted && this.#acceptingTurns < ACCEPTING_TURNS) {
      this.#acceptingTurns++;
      this.#schedule();
      return true;
    }
    this.#acceptingTurns = 0;
    this.#receivedInPass = 0;
    const ready = this.#ready;
    this.#ready = [];
    let left = PASS_BYTES;
    const later: JsConnection[] = [];
    for (const connection of ready) {
      if (left <= 0) {
        later.push(connection);
        continue;
      }
      connection.ready = false;
      if (connection.gone || !connection.mayRead) continue;
      heard = true;
      const before = connection.frames.waiting;
      this.#serve(connection, handler);
      left -= before - connection.frames.waiting;
    }
    if (later.length > 0) {
      this.#ready.unshift(...later);
      this.#schedule();
    }
    return heard;
  }

  #serve(connection: JsConnection, handler: TransportHandler): void {
    const outcome = connection.frames.take(this, connection.id, CONNECTION_FRAMES, CONNECTION_BYTES);
    if (outcome === 'bad') {
      connection.refuse();
      this.#refused.push(connection);
      return;
    }
    if (outcome === 'more') {
      this.markReady(connection);
    } else if (connection.ended && !connection.endTold && !connection.draining && !connection.gone) {
      connection.endTold = true;
      guarded(() => {
        if (handler.onEnd !== undefined) handler.onEnd(connection.id);
        else connection.drain();
      });
    }
    connection.updateFlow();
  }

  onFrame(id: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    guarded(() => this.#handler!.onFrame(id, bytes, start, end));
  }

  onBadFrame(id: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    guarded(() => this.#handler!.onBadFrame(id, bytes, start, end));
  }

  lend(buffer: Buffer): void {
    this.#lent.push(buffer);
  }

  #finish(): void {
    this.#ticking = false;
    for (const connection of this.#refused.splice(0)) connection.drain('bad-frame');
    this.flush();
    for (const buffer of this.#lent.splice(0)) this.framePool.give(buffer);
    if (this.#closed && this.#connections.size === 0 && this.#events.length === 0) this.#onQuiet?.();
  }
}
