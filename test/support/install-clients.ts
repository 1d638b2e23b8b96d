/** `npm run clients [NAME...]`: installs the clients that the interop suite runs, all of them by default. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENTS, type ClientKind, dirOf, isInstalled, sourcesOf, stampFileOf, stampOf } from './clients.ts';

function install(client: ClientKind): void {
  const dir = dirOf(client);
  rmSync(stampFileOf(client), { force: true });
  mkdirSync(dir, { recursive: true });
  for (const { from, to } of sourcesOf(client)) cpSync(from, join(dir, to));
  for (const { command, args, env, cwd } of client.install) {
    const { status, error, stdout, stderr } = spawnSync(command, args, {
      cwd: join(dir, cwd ?? '.'),
      env: { ...process.env, ...env },
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    });
    if (status !== 0) {
      const output = `${stdout ?? ''}${stderr ?? ''}`.split('\n').slice(-60).join('\n');
      throw new Error(
        `${client.name}: ${[command, ...args].join(' ')} failed (${error ?? status})\n${output}`,
      );
    }
  }
  writeFileSync(stampFileOf(client), stampOf(client));
}

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
