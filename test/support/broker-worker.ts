/** A broker in a worker thread: says where it listens, and with `close` closes it when told to. */
import { parentPort, workerData } from 'node:worker_threads';
import { type CreateBrokerOptions, createBroker } from '../../src/index.ts';

const options = workerData as Pick<CreateBrokerOptions, 'dataDir' | 'engine' | 'transport'>;
const broker = await createBroker({ ...options, host: '127.0.0.1', port: 0 });
parentPort!.postMessage(broker.bootstrapServers);
parentPort!.once('message', () => {
  void broker.close().then(() => parentPort!.close());
});
