/** Installs one client from its language's registry. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClientKind, dirOf, sourcesOf, stampFileOf, stampOf } from './clients.ts';

/** Throws with what the command that failed printed. */
export function install(client: ClientKind): void {
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
