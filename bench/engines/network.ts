/** Where the two sides of a measurement run: loopback, or two network namespaces with a veth pair between them. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpus } from 'node:os';

export interface Network {
  readonly name: 'loopback' | 'veth';
  /** Where the client finds the server. */
  readonly host: string;
  /** What runs a program on the server's or the client's side, on a processor of its own. */
  command(side: 'server' | 'client', program: string, args: readonly string[]): [string, string[]];
  close(): void;
}

const pinned = cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0;

function onProcessor(
  side: 'server' | 'client',
  program: string,
  args: readonly string[],
): [string, string[]] {
  if (!pinned) return [program, [...args]];
  return ['taskset', ['-c', side === 'server' ? '0' : '1', program, ...args]];
}

export const loopback: Network = { name: 'loopback', host: '127.0.0.1', command: onProcessor, close() {} };

const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });

/** Undefined where namespaces can't be made: that takes root and iproute2. */
export function vethPair(): Network | undefined {
  const name = { server: `bsb-s-${process.pid}`, client: `bsb-c-${process.pid}` };
  const host = { server: '10.213.7.1', client: '10.213.7.2' };
  const close = () => {
    // The pair goes with its namespaces.
    for (const space of Object.values(name)) spawnSync('ip', ['netns', 'del', space]);
  };
  try {
    for (const space of Object.values(name)) ip('netns', 'add', space);
    ip(
      'link',
      'add',
      'veth0',
      'netns',
      name.server,
      'type',
      'veth',
      'peer',
      'name',
      'veth0',
      'netns',
      name.client,
    );
    for (const side of ['server', 'client'] as const) {
      const inside = (...args: string[]) => ip('-n', name[side], ...args);
      inside('addr', 'add', `${host[side]}/30`, 'dev', 'veth0');
      inside('link', 'set', 'veth0', 'up');
      inside('link', 'set', 'lo', 'up');
    }
  } catch {
    close();
    return undefined;
  }
  return {
    name: 'veth',
    host: host.server,
    command: (side, program, args) => {
      const [first, rest] = onProcessor(side, program, args);
      return ['ip', ['netns', 'exec', name[side], first, ...rest]];
    },
    close,
  };
}
