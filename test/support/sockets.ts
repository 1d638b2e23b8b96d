/** Helpers for tests of a Transport: a handler that records, plain TCP clients, frames. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type {
  CloseReason,
  ConnectionId,
  Peer,
  Transport,
  TransportHandler,
} from '../../src/broker/transport.ts';
import type { Part } from '../../src/protocol/part.ts';

export function frame(body: Uint8Array | string): Buffer {
  const bytes = Buffer.from(body as string);
  const out = Buffer.allocUnsafe(4 + bytes.length);
  out.writeInt32BE(bytes.length, 0);
  bytes.copy(out, 4);
  return out;
}

export function lengthOnly(length: number): Buffer {
  const out = Buffer.alloc(4);
  out.writeInt32BE(length, 0);
  return out;
}

/** Splits a stream of answers into frames' bodies. */
export function unframe(stream: Buffer): Buffer[] {
  const bodies: Buffer[] = [];
  let at = 0;
  while (at + 4 <= stream.length) {
    const length = stream.readInt32BE(at);
    if (at + 4 + length > stream.length) break;
    bodies.push(stream.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  if (at !== stream.length) throw new Error(`${stream.length - at} bytes behind the last whole frame`);
  return bodies;
}

export class Recorder implements TransportHandler {
  readonly accepted: { connection: ConnectionId; peer: Peer }[] = [];
  readonly frames: { connection: ConnectionId; body: Buffer }[] = [];
  readonly bad: Buffer[] = [];
  readonly closed: { connection: ConnectionId; reason: CloseReason }[] = [];
  readonly acceptErrors: Error[] = [];
  ticks = 0;
  /** What to answer with, from inside onFrame. */
  answer: ((connection: ConnectionId, body: Buffer) => readonly Part[] | undefined) | undefined;
  transport: Transport | undefined;
  keep = true;

  onAccept(connection: ConnectionId, peer: Peer): void {
    this.accepted.push({ connection, peer });
  }
  onFrame(connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    const body = Buffer.from(bytes.slice(start, end));
    if (this.keep) this.frames.push({ connection, body });
    const parts = this.answer?.(connection, body);
    if (parts !== undefined) this.transport!.send(connection, parts);
  }
  onBadFrame(_connection: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    this.bad.push(Buffer.from(bytes.slice(start, end)));
  }
  onAcceptFailed(_listener: number, error: Error): void {
    this.acceptErrors.push(error);
  }
  onClose(connection: ConnectionId, reason: CloseReason): void {
    this.closed.push({ connection, reason });
  }
  onTickEnd(): void {
    this.ticks++;
  }
}

export async function open(port: number, host = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host, allowHalfOpen: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.setNoDelay(true);
  return socket;
}

/** Reads exactly `bytes`; rejects when the stream ends before. */
export function read(socket: Socket, bytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let have = 0;
    const done = (error?: Error) => {
      socket.off('data', onData).off('end', onEnd).off('close', onEnd);
      if (error !== undefined) reject(error);
      else resolve(Buffer.concat(chunks));
    };
    const onEnd = () => done(new Error(`ended after ${have} of ${bytes} bytes`));
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      have += chunk.length;
      if (have < bytes) return;
      if (have > bytes) {
        const whole = Buffer.concat(chunks);
        chunks.length = 0;
        chunks.push(whole.subarray(0, bytes));
        socket.pause();
        socket.unshift(whole.subarray(bytes));
      }
      done();
    };
    socket.on('data', onData).on('end', onEnd).on('close', onEnd).resume();
    // It may have ended before anybody listened.
    if (socket.readableEnded || socket.destroyed) onEnd();
  });
}

/** All that comes until the peer's FIN or reset. */
export function readToEnd(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.once('end', () => resolve(Buffer.concat(chunks)));
    socket.once('close', () => resolve(Buffer.concat(chunks)));
  });
}

/** Polls until the condition holds; vitest's own timeout is the limit. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}
