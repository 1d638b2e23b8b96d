/** Small requests per second: the native transport against net.Socket with the same framing, both echoing. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { nativeTransport } from '../../src/broker/native-transport.ts';
import type { Transport } from '../../src/broker/transport.ts';
import { type Comparison, compare, load, pinServer, type Scale } from '../support.ts';

/** Bytes of a request and of its answer, length prefix included. */
const FRAME = 100;

async function nativeEcho(): Promise<{ transport: Transport; port: number }> {
  const transport = nativeTransport({
    maxFrameBytes: 1 << 20,
    maxQueuedBytes: 1 << 20,
    fetchPath: 'auto',
    sendBufferBytes: -1,
    receiveBufferBytes: -1,
  });
  const { port } = await transport.listen('127.0.0.1', 0);
  transport.start({
    onAccept() {},
    // The length prefix lies in front of the frame.
    onFrame: (connection, bytes, start, end) => transport.send(connection, [bytes.subarray(start - 4, end)]),
    onBadFrame() {},
    onClose() {},
    onTickEnd() {},
  });
  return { transport, port };
}

/** corked: one writev for all answers to a chunk; else a write per answer, as handlers that answer one by one do. */
async function socketEcho(corked: boolean): Promise<{ server: Server; port: number }> {
  const server = createServer({ noDelay: true }, (socket) => {
    let rest: Buffer = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let at = 0;
      if (corked) socket.cork();
      while (bytes.length - at >= 4) {
        const end = at + 4 + bytes.readInt32BE(at);
        if (end > bytes.length) break;
        socket.write(bytes.subarray(at, end));
        at = end;
      }
      if (corked) socket.uncork();
      rest = bytes.subarray(at);
    });
    socket.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

export async function requests(scale: Scale): Promise<Comparison[]> {
  pinServer();
  const native = await nativeEcho();
  const plain = await socketEcho(false);
  const corked = await socketEcho(true);
  const results: Comparison[] = [];
  for (const [connections, depth, expected] of [
    [1, 1, undefined],
    [1, 8, undefined],
    [64, 1, undefined],
    [64, 8, 3],
  ] as const) {
    const measure = (port: number) => () =>
      load({
        port,
        connections,
        depth,
        requestBytes: FRAME,
        answerBytes: FRAME,
        seconds: scale.seconds,
      });
    const name = `requests, ${connections} connection${connections > 1 ? 's' : ''}, depth ${depth}`;
    const ours = measure(native.port);
    results.push(await compare(name, '/s', scale.rounds, ours, measure(plain.port), expected));
    if (depth === 1) continue;
    results.push(await compare(`${name}, net.Socket corked`, '/s', scale.rounds, ours, measure(corked.port)));
  }
  await native.transport.close(0);
  plain.server.close();
  corked.server.close();
  return results;
}
