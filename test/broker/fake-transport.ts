/** A transport without sockets: a test plays the peers. Ranges of files are looked up when they are sent. */
import type {
  CloseReason,
  ConnectionId,
  Peer,
  Transport,
  TransportHandler,
  TransportStats,
} from '../../src/broker/transport.ts';
import type { FileRange, Part } from '../../src/protocol/part.ts';

export class FakePeer {
  readonly id: ConnectionId;
  /** Whole frames without their length. */
  readonly received: Buffer[] = [];
  closed: CloseReason | undefined;
  reading = true;
  /** Reads nothing: answers pile up, counted. */
  stalled = false;
  unread = 0;

  constructor(id: ConnectionId) {
    this.id = id;
  }
}

export class FakeTransport implements Transport {
  readonly name = 'js';
  readonly peers = new Map<ConnectionId, FakePeer>();
  readonly accepting = new Map<number, boolean>();
  flushes = 0;
  closedTransport = false;
  readonly #bytesOf: (range: FileRange) => Uint8Array;
  #handler: TransportHandler | undefined;
  #nextId = 1;

  constructor(bytesOf: (range: FileRange) => Uint8Array) {
    this.#bytesOf = bytesOf;
  }

  // --- what a test does ---

  connect(remoteAddress = '10.0.0.1', listener = 0): FakePeer {
    const peer = new FakePeer(this.#nextId++);
    this.peers.set(peer.id, peer);
    const where: Peer = {
      listener,
      remoteAddress,
      remotePort: 40000 + peer.id,
      localAddress: '10.0.0.9',
      localPort: 9092,
    };
    this.#handler!.onAccept(peer.id, where);
    return peer;
  }

  /** One tick in which these frames arrive. They lie in memory that is overwritten when the tick ends. */
  tick(...frames: (readonly [FakePeer, Uint8Array])[]): void {
    const slabs: Uint8Array[] = [];
    for (const [peer, bytes] of frames) {
      if (peer.closed !== undefined) continue;
      const slab = Buffer.concat([Buffer.alloc(8, 0xee), bytes, Buffer.alloc(8, 0xee)]);
      slabs.push(slab);
      this.#handler!.onFrame(peer.id, slab, 8, 8 + bytes.length);
    }
    this.#handler!.onTickEnd();
    for (const slab of slabs) slab.fill(0xdd);
  }

  badFrame(peer: FakePeer, bytes: Uint8Array): void {
    this.#handler!.onBadFrame(peer.id, bytes, 0, bytes.length);
    this.hangUp(peer, 'bad-frame');
  }

  /** The peer takes all that waits for it. */
  drain(peer: FakePeer): void {
    peer.unread = 0;
    this.#handler!.onDrained?.(peer.id);
    this.#handler!.onTickEnd();
  }

  end(peer: FakePeer): void {
    this.#handler!.onEnd?.(peer.id);
  }

  hangUp(peer: FakePeer, reason: CloseReason = 'peer'): void {
    if (peer.closed !== undefined) return;
    peer.closed = reason;
    this.#handler!.onClose(peer.id, reason);
  }

  // --- Transport ---

  start(handler: TransportHandler): void {
    this.#handler = handler;
  }

  async listen(_host: string, port: number): Promise<{ listener: number; port: number }> {
    const listener = this.accepting.size;
    this.accepting.set(listener, true);
    return { listener, port: port === 0 ? 9092 + listener : port };
  }

  setAccepting(listener: number, accepting: boolean): void {
    this.accepting.set(listener, accepting);
  }

  send(connection: ConnectionId, parts: readonly Part[]): void {
    const bytes = Buffer.concat(
      parts.map((part) => (part instanceof Uint8Array ? part : this.#bytesOf(part))),
    );
    if (bytes.readInt32BE(0) !== bytes.length - 4) throw new Error('a frame whose length is wrong');
    const peer = this.peers.get(connection);
    if (peer === undefined || peer.closed !== undefined) return;
    peer.received.push(bytes.subarray(4));
    if (peer.stalled) peer.unread += bytes.length;
  }

  flush(): void {
    this.flushes++;
  }

  isBackedUp(connection: ConnectionId, mark: number): boolean {
    return (this.peers.get(connection)?.unread ?? 0) > mark;
  }

  setReading(connection: ConnectionId, reading: boolean): void {
    const peer = this.peers.get(connection);
    if (peer !== undefined) peer.reading = reading;
  }

  closeConnection(connection: ConnectionId): void {
    const peer = this.peers.get(connection);
    if (peer !== undefined) this.hangUp(peer, 'local');
  }

  closeIdle(): void {}

  stats(): TransportStats {
    return {
      connections: [...this.peers.values()].filter((peer) => peer.closed === undefined).length,
      bytesReceived: 0,
      bytesSent: 0,
      bytesBySendfile: 0,
      bytesByCopy: 0,
      bytesQueued: 0,
      bytesPartial: 0,
      buffersAllocated: 0,
    };
  }

  closeListener(listener: number): void {
    this.accepting.set(listener, false);
  }

  async close(): Promise<void> {
    this.closedTransport = true;
    for (const peer of this.peers.values()) this.hangUp(peer, 'local');
  }
}
