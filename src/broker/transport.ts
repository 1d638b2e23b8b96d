/**
 * Transport: sockets, frames and what leaves. `transport=native` implements it over the addon's own epoll set,
 * `transport=js` over node:net.
 *
 * A tick is one pass over all connections that have something to say: onAccept / onFrame / onBadFrame / onClose calls,
 * then one onTickEnd. What is sent before onTickEnd returns leaves in the same tick.
 */
import type { Part } from '../protocol/part.ts';
import type { BroadsheetError } from '../runtime/errors.ts';

/** Names one connection of one transport for ever: descriptors are reused, ids are not. */
export type ConnectionId = number;

export interface Peer {
  readonly listener: number;
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** The local address that the client reached. */
  readonly localAddress: string;
  readonly localPort: number;
}

export type CloseReason = 'peer' | 'reset' | 'idle' | 'local' | 'bad-frame' | 'send-overflow' | 'error';

export interface TransportHandler {
  onAccept(connection: ConnectionId, peer: Peer): void;
  /** One whole request without its length prefix. The bytes are valid until the tick ends: what must live longer is
   * copied. */
  onFrame(connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void;
  /** A length that no Kafka peer sends (negative, 0, or above maxFrameBytes). `bytes` holds what arrived, from the
   * length on, at most 64 bytes. The connection is closed by the transport afterwards. */
  onBadFrame(connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void;
  /** The peer sent its FIN: no other frame comes, but it may still read answers. The handler calls
   * closeConnection(connection, true) once it has given the last one; onClose('peer') follows. Without this method the
   * transport closes the connection after what this tick sends. */
  onEnd?(connection: ConnectionId): void;
  /** Of what isBackedUp() was true for, no more than the mark waits any longer. */
  onDrained?(connection: ConnectionId): void;
  /** No descriptor was to be had for a new connection: accepting rests for a moment (native), or who comes is turned away
   * (js). Once, until it works again. */
  onAcceptFailed?(listener: number, error: BroadsheetError): void;
  onClose(connection: ConnectionId, reason: CloseReason): void;
  /** All connections that had something to say were heard: write, wake, answer. */
  onTickEnd(): void;
}

export interface TransportOptions {
  /** Largest frame, bytes (socket.request.max.bytes). */
  readonly maxFrameBytes: number;
  /** Bytes queued to one connection past which its reads stop until it drains. */
  readonly maxQueuedBytes: number;
  /** How ranges of files leave: 'auto' copies up to 32 KiB and uses sendfile(2) above. */
  readonly fetchPath: 'auto' | 'sendfile' | 'copy';
  /** SO_SNDBUF and SO_RCVBUF; 0 or -1 leaves them to the system, which then fits them to the traffic. */
  readonly sendBufferBytes: number;
  readonly receiveBufferBytes: number;
}

export interface TransportStats {
  readonly connections: number;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly bytesBySendfile: number;
  readonly bytesByCopy: number;
  /** Bytes waiting in send queues, file ranges included. */
  readonly bytesQueued: number;
  /** Bytes held for frames that are not complete. */
  readonly bytesPartial: number;
  /** Buffers for frames longer than one receive that were allocated since the start; steady traffic reuses them. */
  readonly buffersAllocated: number;
}

export interface Transport {
  readonly name: 'native' | 'js';
  start(handler: TransportHandler): void;
  /** Listens; port 0 takes a free one. Rejects with ADDRESS_IN_USE, NOT_FOUND (no such host), LIMIT, IO and CLOSED. Accepts
   * once start() was called. */
  listen(host: string, port: number): Promise<{ listener: number; port: number }>;
  /** Stops or resumes accepting on a listener (max.connections): who connects meanwhile waits. */
  setAccepting(listener: number, accepting: boolean): void;
  /** Queues one whole response, length prefix included. Parts that are bytes are copied or kept: the caller may reuse
   * them once the call returns. A connection that is gone swallows it. */
  send(connection: ConnectionId, parts: readonly Part[]): void;
  /** Writes what is queued as far as sockets take it. A tick does this by itself; callers outside one do it. */
  flush(): void;
  /** Whether more than `mark` bytes of answers wait on a connection, file ranges not counted: they cost no memory. If so,
   * onDrained follows once they don't. */
  isBackedUp(connection: ConnectionId, mark: number): boolean;
  /** Stops reading a connection, or goes on: the bound on requests that wait. Frames that this tick already found are
   * still handed out. */
  setReading(connection: ConnectionId, reading: boolean): void;
  /** Closes after what is queued has left (drain), or at once. No other frame of it is handed out; onClose follows, with
   * 'local'. */
  closeConnection(connection: ConnectionId, drain: boolean): void;
  /** Closes connections that neither received nor sent for idleMs; onClose('idle') follows. */
  closeIdle(idleMs: number): void;
  stats(): TransportStats;
  closeListener(listener: number): void;
  /** Closes listeners and connections (draining up to drainMs), releases all handles. Idempotent. */
  close(drainMs: number): Promise<void>;
}
