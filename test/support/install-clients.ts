/** `npm run clients [NAME...]`: installs the clients that the interop suite runs, all of them by default. */
import { CLIENTS, isInstalled } from './clients.ts';
import { install } from './install-client.ts';

const names = process.argv.slice(2);
const unknown = names.filter((name) => !CLIENTS.some((client) => client.name === name));
if (unknown.length > 0) {
  console.error(
    `no such client: ${unknown.join(', ')}; there are ${CLIENTS.map(({ name }) => name).join(', ')}`,
  );
  process.exit(1);
}
for (const client of CLIENTS.filter(({ name }) => names.length === 0 || names.includes(name))) {
  if (isInstalled(client)) {
    console.log(`${client.name}: is installed`);
    continue;
  }
  const from = Date.now();
  install(client);
  console.log(`${client.name}: installed in ${((Date.now() - from) / 1000).toFixed(0)} s`);
}
