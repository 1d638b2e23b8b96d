/**
 * A broker in a process of its own whose bytes can be asked for: `server.ts DIRECTORY [KEY=VALUE ...]`. Listens on every
 * address and prints its port; then answers each line of standard input with one line of JSON: `topic NAME` makes a topic of
 * one partition, `stats` gives the transport's counts. Ends with its standard input.
 */
import { createInterface } from 'node:readline';
import { BrokerInstance } from '../../src/broker/broker.ts';
import { openEngines } from '../../src/broker/engines.ts';
import { Client } from '../../src/client/client.ts';
import { BrokerConfig } from '../../src/config/broker-config.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';

const [dataDir = '', ...settings] = process.argv.slice(2);
const texts = new Map(settings.map((text): [string, string] => [text.split('=')[0]!, text.split('=')[1]!]));
// What clients from elsewhere connect to needs no name: they are told nothing and ask for nothing.
texts.set('listeners', 'PLAINTEXT://0.0.0.0:0');
const config = new BrokerConfig(texts);
const { engine, transport } = await openEngines(config, silentLogger);
const broker = await BrokerInstance.start({
  dataDir,
  config,
  engine,
  transport,
  clock: systemClock,
  log: silentLogger,
});
const { port } = broker.endpoints[0]!;
process.stdout.write(`${port}\n`);

async function makeTopic(name: string): Promise<void> {
  const client = await Client.connect(`127.0.0.1:${port}`);
  await client.createTopics([{ name, partitions: 1 }]);
  await client.close();
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, name] = line.split(' ');
  if (command === 'topic') await makeTopic(name!);
  process.stdout.write(`${JSON.stringify(transport.stats())}\n`);
}
await broker.close();
process.exit(0);
