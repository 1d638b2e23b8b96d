/** An echo server for tests, run as a process or a worker, over the transport that it is told. Says its port; `close` closes it after an
 * answer of its own, `exit` ends the process when asked to, `starve` prints what onAcceptFailed hears, `weigh` collects garbage
 * and says what it holds (see Held) for each line that comes in, `leak` does too and loses a
 * few hundred bytes of both kinds with each connection. */
import { createHash, type Hash } from 'node:crypto';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { nativeTesting } from './native-testing.ts';
import { makeTransport, type TransportName } from './transports.ts';

/** Bytes that a process holds: of the JavaScript heap, in buffers, and of what malloc() gave it besides. */
export interface Held {
  readonly js: number;
  readonly buffers: number;
  readonly native: number;
  /** Connections that are open. */
  readonly connections: number;
}

async function held(): Promise<Held> {
  // Twice: the first only notes which buffers were free all the time.
  transport.closeIdle(1_000_000);
  transport.closeIdle(1_000_000);
  // Memory of arrays is given back a little after they were collected, by another thread.
  for (let round = 0; round < 3; round++) {
    globalThis.gc!();
    await sleep(20);
  }
  const { connections } = transport.stats();
  const { heapUsed: js, arrayBuffers: buffers } = process.memoryUsage();
  return { connections, js, buffers, native: nativeTesting().allocatedBytes() - buffers };
}

const lost: Hash[] = [];
const [name, mode] = process.argv.slice(2);
const transport = makeTransport(name as TransportName, {
  maxFrameBytes: 1 << 20,
  maxQueuedBytes: 1 << 20,
  fetchPath: 'auto',
  sendBufferBytes: -1,
  receiveBufferBytes: -1,
});
const { port } = await transport.listen('127.0.0.1', 0);
transport.start({
  onAccept() {
    if (mode === 'leak') lost.push(createHash('sha256'));
  },
  onFrame(connection, bytes, start, end) {
    if (mode === 'exit' && end - start === 4) process.exit(7);
    transport.send(connection, [bytes.slice(start - 4, end)]);
  },
  onBadFrame() {},
  onClose() {},
  onAcceptFailed(_listener, error) {
    console.log(error.code);
  },
  onTickEnd() {},
});
if (mode === 'close') {
  const socket = connect(port, '127.0.0.1');
  socket.write(Buffer.of(0, 0, 0, 1, 7));
  socket.once('data', () => {
    socket.end();
    void transport.close(1_000);
  });
} else if (parentPort === null) {
  console.log(port);
  if (mode === 'weigh' || mode === 'leak') {
    for await (const _ of createInterface({ input: process.stdin }))
      console.log(JSON.stringify(await held()));
  }
} else {
  parentPort.postMessage({ port });
}
