/** What the benchmarks share: C programs to measure against, and ratios of rounds that take turns. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { OpenOptions } from '../src/log/log.ts';

export interface Ratio {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export interface Measurement {
  readonly perSecond: number;
  readonly perCpuSecond?: number;
}

export interface Comparison {
  readonly name: string;
  /** Per second, or what it costs; the median of the rounds. */
  readonly ours: number;
  readonly theirs: number;
  readonly unit: string;
  /** ours / theirs of each round; of costs theirs / ours. */
  readonly ratio: Ratio;
  /** The same of what a second of the server's processor does: steadier where the machine has other work too. */
  readonly cpuRatio?: Ratio;
  /** Per second of the server's processor, the median of the rounds. */
  readonly oursPerCpu?: number;
  readonly theirsPerCpu?: number;
  /** The ratio that the project wants; undefined where there is none. */
  readonly expected?: number;
}

/** What something costs: time, processor, memory. Less is better. */
export interface Cost {
  readonly value: number;
  readonly unit: string;
}

/** Measures several costs at once, in turns as compare() does. The ratio is theirs / ours: more is better here too. */
export async function compareCosts(
  rounds: number,
  ours: () => Promise<Readonly<Record<string, Cost>>>,
  theirs: () => Promise<Readonly<Record<string, Cost>>>,
  expected: Readonly<Record<string, number>> = {},
): Promise<Comparison[]> {
  const results: (readonly [Readonly<Record<string, Cost>>, Readonly<Record<string, Cost>>])[] = [];
  for (let round = 0; round < rounds; round++) {
    const oursFirst = round % 2 === 0;
    const first = await (oursFirst ? ours() : theirs());
    const second = await (oursFirst ? theirs() : ours());
    results.push(oursFirst ? [first, second] : [second, first]);
  }
  return Object.entries(results[0]![0]).map(([name, { unit }]) => ({
    name,
    unit,
    ours: median(results.map(([own]) => own[name]!.value)),
    theirs: median(results.map(([, other]) => other[name]!.value)),
    ratio: ratioOf(results.map(([own, other]) => other[name]!.value / own[name]!.value)),
    ...(expected[name] === undefined ? {} : { expected: expected[name] }),
  }));
}

export interface Scale {
  readonly rounds: number;
  /** Of one measurement of requests. */
  readonly seconds: number;
  /** Written by one measurement of appends, and the size of the file that fetches read; a multiple of 8 MiB. */
  readonly bytes: number;
  /** Of one group; other suites have 5 consumers, or 500 groups, for each. */
  readonly members: number;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

export function ratioOf(values: readonly number[]): Ratio {
  return { min: Math.min(...values), median: median(values), max: Math.max(...values) };
}

/** Measures both in turns, so that whatever else the machine does strikes both; the order changes with each round. */
export async function compare(
  name: string,
  unit: string,
  rounds: number,
  ours: () => Promise<Measurement>,
  theirs: () => Promise<Measurement>,
  expected?: number,
): Promise<Comparison> {
  const results: { ours: Measurement; theirs: Measurement }[] = [];
  for (let round = 0; round < rounds; round++) {
    const oursFirst = round % 2 === 0;
    const first = await (oursFirst ? ours() : theirs());
    const second = await (oursFirst ? theirs() : ours());
    results.push(oursFirst ? { ours: first, theirs: second } : { ours: second, theirs: first });
  }
  const cpu = results.flatMap(({ ours: a, theirs: b }) =>
    a.perCpuSecond === undefined || b.perCpuSecond === undefined ? [] : [a.perCpuSecond / b.perCpuSecond],
  );
  return {
    name,
    unit,
    ours: median(results.map((r) => r.ours.perSecond)),
    theirs: median(results.map((r) => r.theirs.perSecond)),
    ratio: ratioOf(results.map((r) => r.ours.perSecond / r.theirs.perSecond)),
    ...(cpu.length > 0
      ? {
          cpuRatio: ratioOf(cpu),
          oursPerCpu: median(results.map((r) => r.ours.perCpuSecond!)),
          theirsPerCpu: median(results.map((r) => r.theirs.perCpuSecond!)),
        }
      : {}),
    ...(expected === undefined ? {} : { expected }),
  };
}

export function line(result: Comparison): string {
  const show = ({ min, median: middle, max }: Ratio) =>
    `${middle.toFixed(2)}x [${min.toFixed(2)} .. ${max.toFixed(2)}]`;
  const number = (n: number) => (n >= 100 ? Math.round(n).toLocaleString('en') : n.toFixed(2));
  const wanted = result.expected === undefined ? '' : `, expected ${result.expected}`;
  const cpu = result.cpuRatio === undefined ? '' : `, per CPU second ${show(result.cpuRatio)}`;
  let absolute = `${number(result.ours)} against ${number(result.theirs)} ${result.unit}`;
  if (result.unit === 'MiB/s' && result.oursPerCpu !== undefined) {
    const perGiB = (rate: number) => (1024 / rate).toFixed(2);
    absolute += `; ${perGiB(result.oursPerCpu)} against ${perGiB(result.theirsPerCpu!)} CPU s/GiB`;
  }
  return `${result.name}: ${show(result.ratio)}${wanted}${cpu} (${absolute})`;
}

/** Compiles bench/native/NAME.c once per content; its path. */
export function compile(name: string): string {
  const source = fileURLToPath(new URL(`native/${name}.c`, import.meta.url));
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16);
  const dir = join(tmpdir(), 'broadsheet-bench');
  const out = join(dir, `${name}-${hash}`);
  if (!existsSync(out)) {
    mkdirSync(dir, { recursive: true });
    execFileSync(process.env.CC ?? 'cc', ['-O2', '-Wall', '-o', out, source], { stdio: 'inherit' });
  }
  return out;
}

/** What all threads of a process used of the processor so far, seconds; threads that have ended do not count. */
export function processCpuSecondsOf(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const path = `/proc/${pid}/task/${thread}/schedstat`;
    // A thread may end meanwhile.
    if (existsSync(path)) nanoseconds += Number(readFileSync(path, 'utf8').split(' ')[0]);
  }
  return nanoseconds / 1e9;
}

/** What a process's main thread used of the processor so far, seconds. */
export function cpuSecondsOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
}

/** With two processors or more, servers run on the first and clients on the second. */
const pinned = cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0;

export function pinServer(pid = process.pid): void {
  if (pinned) spawnSync('taskset', ['-cp', '0', String(pid)]);
}

/** `stderr`: a file descriptor, by default this process's. */
export function spawnPinned(
  role: 'server' | 'client',
  program: string,
  args: string[],
  stderr: number | 'inherit' = 'inherit',
): ChildProcess {
  const own = pinned ? ['-c', role === 'server' ? '0' : '1', program, ...args] : args;
  return spawn(pinned ? 'taskset' : program, own, { stdio: ['ignore', 'pipe', stderr] });
}

export async function firstLine(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout! });
  const [text] = (await once(lines, 'line')) as [string];
  return text;
}

/** Kafka's defaults, for a log that is new. */
export const LOG_OPTIONS: OpenOptions = {
  segmentBytes: 1 << 30,
  segmentMs: 7 * 86_400_000,
  indexBytes: 10 << 20,
  indexIntervalBytes: 4096,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: false,
  now: 0,
};

export interface Load {
  readonly port: number;
  /** Its process; this one by default. */
  readonly server?: number;
  readonly connections: number;
  readonly depth: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly seconds: number;
}

/** Answers per second that bench/native/client.c gets. */
export async function load(of: Load): Promise<Measurement> {
  const { port, connections, depth, requestBytes, answerBytes, seconds: time, server = process.pid } = of;
  const args = [port, connections, depth, requestBytes, answerBytes, time, server].map(String);
  const child = spawnPinned('client', compile('client'), args);
  const ended = once(child, 'exit') as Promise<[number | null]>;
  const text = await Promise.race([
    firstLine(child),
    ended.then(([code]) => Promise.reject(new Error(`the client ended with ${code}`))),
  ]);
  await ended;
  const [answers, seconds, cpu] = text.split(' ').map(Number) as [number, number, number];
  return { perSecond: answers / seconds, perCpuSecond: answers / cpu };
}
