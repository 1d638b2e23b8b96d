/** A broker in a worker thread: says where it listens, and with `close` closes it when told to. */
import { parentPort, workerData } from 'node:worker_threads';
import { createBroker } from '../../src/index.ts';

const { dataDir } = workerData as { dataDir: string };
const broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0 });
parentPort!.postMessage(broker.bootstrapServers);
parentPort!.once('message', () => {
  void broker.close().then(() => parentPort!.close());
});
