/** An echo server for tests, run as a process or a worker. Says its port; `close` closes it after an
 * answer of its own, `exit` ends the process when asked to, `starve` prints what onAcceptFailed hears. */
import { connect } from 'node:net';
import { parentPort } from 'node:worker_threads';
import { nativeTransport } from '../../src/broker/native-transport.ts';

const [mode] = process.argv.slice(2);
const transport = nativeTransport({
  maxFrameBytes: 1 << 20,
  maxQueuedBytes: 1 << 20,
  fetchPath: 'auto',
  sendBufferBytes: -1,
  receiveBufferBytes: -1,
});
const { port } = transport.listen('127.0.0.1', 0);
transport.start({
  onAccept() {},
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
} else {
  parentPort.postMessage({ port });
}
