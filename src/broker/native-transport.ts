/** `transport=native`: sockets, framing and send queues of the addon (native/poll_loop.h), one call per tick. */
import { nativeRanges } from '../log/native-ranges.ts';
import { addon, type SocketAddon, type SocketShared, toError } from '../native.ts';
import type { Part } from '../protocol/part.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { namingLimit } from '../runtime/limits.ts';
import type {
  CloseReason,
  ConnectionId,
  Peer,
  Transport,
  TransportHandler,
  TransportOptions,
  TransportStats,
} from './transport.ts';

/** How long accepting rests when no descriptor was to be had, ms. */
const ACCEPT_PAUSE = 100;

const NOTHING: TransportStats = {
  connections: 0,
  bytesReceived: 0,
  bytesSent: 0,
  bytesBySendfile: 0,
  bytesByCopy: 0,
  bytesQueued: 0,
  bytesPartial: 0,
  buffersAllocated: 0,
};

export function nativeTransport(options: TransportOptions): Transport {
  return new NativeTransport(addon(), options);
}

class NativeTransport implements Transport {
  readonly name = 'native';
  readonly #native: SocketAddon;
  readonly #shared: SocketShared;
  readonly #reasons: CloseReason[] = [];
  #handler: TransportHandler | undefined;
  /** Bytes of the outbox in use, since entries were last taken. */
  #outboxUsed = 0;
  readonly #outboxEntries: number;
  #flushScheduled = false;
  /** Connections that were closed from here in this tick: their other frames are not handed out. */
  readonly #shut = new Set<ConnectionId>();
  #acceptTimer: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;
  #closed = false;
  #onDrained: (() => void) | undefined;
  #listeners: number[] = [];
  #connections = 0;

  constructor(native: SocketAddon, options: TransportOptions) {
    this.#native = native;
    const opened = native.socketOpen(
      options.maxFrameBytes,
      options.maxQueuedBytes,
      options.fetchPath,
      options.sendBufferBytes,
      options.receiveBufferBytes,
    );
    if ('code' in opened) throw toError(opened);
    this.#shared = opened;
    this.#outboxEntries = opened.entries.length / native.socketLayout.entry.stride;
    for (const [name, value] of Object.entries(native.socketLayout.reasons))
      this.#reasons[value] = name as CloseReason;
  }

  start(handler: TransportHandler): void {
    this.#handler = handler;
    const status = this.#native.socketStart(this.#shared.transport, this.#dispatcher(handler));
    if (status !== undefined) throw toError(status);
  }

  async listen(host: string, port: number): Promise<{ listener: number; port: number }> {
    const result = this.#native.socketListen(this.#shared.transport, host, port);
    if ('code' in result) throw toError(result);
    this.#listeners.push(result.listener);
    return result;
  }

  setAccepting(listener: number, accepting: boolean): void {
    this.#native.socketSetAccepting(this.#shared.transport, listener, accepting);
  }

  closeListener(listener: number): void {
    this.#native.socketCloseListener(this.#shared.transport, listener);
    this.#listeners = this.#listeners.filter((each) => each !== listener);
  }

  send(connection: ConnectionId, parts: readonly Part[]): void {
    if (this.#closed) return;
    let ranges = false;
    for (const part of parts) {
      if (part instanceof Uint8Array) {
        this.#sendBytes(connection, part);
      } else {
        // Another source's numbers would name other files here.
        if (part.source !== nativeRanges) throw new Error("a range of a log that is not the addon's");
        this.#entry(connection, part.segment, part.position, part.length);
        ranges = true;
      }
    }
    // A segment's handle may be gone later in the tick: its file is looked up now.
    if (ranges) this.#native.socketTake(this.#shared.transport);
    if (this.#shared.control[this.#native.socketLayout.control.ticking] === 0 && !this.#flushScheduled) {
      this.#flushScheduled = true;
      queueMicrotask(() => {
        if (this.#flushScheduled) this.flush();
      });
    }
  }

  #sendBytes(connection: ConnectionId, bytes: Uint8Array): void {
    const { outbox, control, transport } = this.#shared;
    const length = bytes.length;
    if (length > outbox.length / 4) {
      this.#native.socketSend(transport, connection, bytes);
      return;
    }
    if (control[this.#native.socketLayout.control.entries] === 0) this.#outboxUsed = 0;
    if (this.#outboxUsed + length > outbox.length) {
      this.#native.socketTake(transport);
      this.#outboxUsed = 0;
    }
    outbox.set(bytes, this.#outboxUsed);
    this.#entry(connection, -1, this.#outboxUsed, length);
    this.#outboxUsed += length;
  }

  #entry(connection: ConnectionId, segment: number, start: number, length: number): void {
    const { entries, control, transport } = this.#shared;
    const layout = this.#native.socketLayout;
    if (control[layout.control.entries] === this.#outboxEntries) {
      // The bytes that this entry names are still in the outbox, behind those that are taken now.
      this.#native.socketTake(transport);
    }
    const count = control[layout.control.entries]!;
    const at = count * layout.entry.stride;
    entries[at + layout.entry.connection] = connection;
    entries[at + layout.entry.segment] = segment;
    entries[at + layout.entry.start] = start;
    entries[at + layout.entry.length] = length;
    control[layout.control.entries] = count + 1;
  }

  flush(): void {
    this.#flushScheduled = false;
    this.#native.socketFlush(this.#shared.transport);
  }

  isBackedUp(connection: ConnectionId, mark: number): boolean {
    return this.#native.socketBackedUp(this.#shared.transport, connection, mark);
  }

  setReading(connection: ConnectionId, reading: boolean): void {
    this.#native.socketSetReading(this.#shared.transport, connection, reading);
  }

  closeConnection(connection: ConnectionId, drain: boolean): void {
    if (this.#shared.control[this.#native.socketLayout.control.ticking] !== 0) this.#shut.add(connection);
    this.#native.socketCloseConnection(this.#shared.transport, connection, drain);
  }

  closeIdle(idleMs: number): void {
    this.#native.socketCloseIdle(this.#shared.transport, idleMs);
  }

  stats(): TransportStats {
    return this.#native.socketStats(this.#shared.transport) ?? NOTHING;
  }

  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    clearTimeout(this.#acceptTimer);
    for (const listener of this.#listeners.splice(0)) {
      this.#native.socketCloseListener(this.#shared.transport, listener);
    }
    if (this.#handler !== undefined && drainMs > 0) await this.#drainAll(drainMs);
    this.#closed = true;
    await new Promise<void>((resolve) => this.#native.socketClose(this.#shared.transport, resolve));
  }

  /** Resolves when the last connection is closed, or after drainMs. */
  #drainAll(drainMs: number): Promise<void> {
    this.#native.socketDrainAll(this.#shared.transport);
    if (this.stats().connections === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, drainMs);
      this.#onDrained = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** What the addon calls once per tick. After an exception out of the handler it is called again and goes on behind
   * the event that threw. */
  #dispatcher(handler: TransportHandler): (count: number) => void {
    const { events, buffers, control } = this.#shared;
    const { event: field, events: kind, control: slot } = this.#native.socketLayout;
    return (count) => {
      let index = control[slot.cursor]!;
      while (index < count) {
        const at = index * field.stride;
        control[slot.cursor] = ++index;
        const connection = events[at + field.connection]!;
        const start = events[at + field.start]!;
        switch (events[at + field.kind]) {
          case kind.frame:
            if (this.#shut.size > 0 && this.#shut.has(connection)) break;
            handler.onFrame(connection, buffers[events[at + field.buffer]!]!, start, events[at + field.end]!);
            break;
          case kind.accepted:
            this.#accepted(handler, connection);
            break;
          case kind.badFrame:
            if (this.#shut.has(connection)) break;
            handler.onBadFrame(
              connection,
              buffers[events[at + field.buffer]!]!,
              start,
              events[at + field.end]!,
            );
            break;
          case kind.ended:
            if (this.#shut.has(connection)) break;
            if (handler.onEnd !== undefined) handler.onEnd(connection);
            else this.closeConnection(connection, true);
            break;
          case kind.drained:
            handler.onDrained?.(connection);
            break;
          case kind.closed:
            if (--this.#connections === 0) this.#onDrained?.();
            handler.onClose(connection, this.#reasons[start]!);
            break;
          case kind.acceptFailed:
            this.#acceptFailed(handler, connection, events[at + field.buffer] === 1, start);
            break;
        }
      }
      if (index === count) {
        control[slot.cursor] = count + 1;
        this.#shut.clear();
        handler.onTickEnd();
      }
    };
  }

  #accepted(handler: TransportHandler, connection: ConnectionId): void {
    this.#connections++;
    const peer: Peer | undefined = this.#native.socketPeer(this.#shared.transport, connection);
    // Gone already, within its first tick: onClose follows, so that the two stay in pairs.
    handler.onAccept(
      connection,
      peer ?? { listener: 0, remoteAddress: '', remotePort: 0, localAddress: '', localPort: 0 },
    );
  }

  #acceptFailed(handler: TransportHandler, listener: number, first: boolean, errno: number): void {
    this.#acceptTimer ??= setTimeout(() => {
      this.#acceptTimer = undefined;
      this.#native.socketResumeAccepting(this.#shared.transport);
    }, ACCEPT_PAUSE);
    this.#acceptTimer.unref();
    if (!first) return;
    handler.onAcceptFailed?.(
      listener,
      new BroadsheetError(
        'LIMIT',
        namingLimit('no descriptor is left for another connection: accepting rests', errno),
        errno,
      ),
    );
  }
}
