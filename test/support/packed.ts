/** The package as `npm install` gets it, and projects that use it. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const run = promisify(execFile);

const musl = existsSync('/etc/alpine-release');
/** Where the package has the binary of this machine. */
export const binary = `prebuilds/linux-${process.arch}/broadsheet.${musl ? 'musl' : 'glibc'}.node`;

/** Whether `npm run build:prebuilds` made the binary of this machine. Else the one that is compiled here takes its place. */
export const HAS_PREBUILT = existsSync(root + binary);

/** A copy of the checkout's package with the binary of this machine in place, as a release has it; made in `scratch`. */
export async function pack(scratch: string): Promise<string> {
  const staged = join(scratch, 'staged');
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch], {
    cwd: root,
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  if (HAS_PREBUILT) return join(scratch, filename);
  mkdirSync(staged);
  await run('tar', ['-xzf', join(scratch, filename), '-C', staged, '--strip-components=1']);
  mkdirSync(join(staged, binary, '..'), { recursive: true });
  copyFileSync(`${root}build/Release/broadsheet.node`, join(staged, binary));
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', scratch], { cwd: staged });
  return join(scratch, filename);
}

/** Makes a project in the new folder `dir` and installs packages there. */
export async function install(dir: string, packages: readonly string[], options: readonly string[] = []) {
  mkdirSync(dir);
  writeFileSync(join(dir, 'package.json'), '{ "name": "project", "version": "1.0.0" }');
  const args = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...options, ...packages];
  await run('npm', args, { cwd: dir });
}

/** Starts a broker by that command, gives its address once it listens to `use`, and stops it with all that the command
 * began. */
export async function serving<T>(
  [command, ...args]: readonly [string, ...string[]],
  cwd: string,
  use: (address: string) => Promise<T>,
): Promise<T> {
  const broker: ChildProcess = spawn(command, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const ended = once(broker, 'exit');
  try {
    const address = await new Promise<string>((resolve, reject) => {
      let output = '';
      const hear = (chunk: Buffer) => {
        output += chunk;
        const found = /listens on (\S+)/.exec(output)?.[1];
        if (found !== undefined) resolve(found);
      };
      broker.stdout!.on('data', hear);
      broker.stderr!.on('data', hear);
      broker.on('exit', (code) => reject(new Error(`the broker ended with ${code}: ${output}`)));
    });
    return await use(address);
  } finally {
    if (broker.exitCode === null) process.kill(-broker.pid!, 'SIGTERM');
    await ended;
  }
}
