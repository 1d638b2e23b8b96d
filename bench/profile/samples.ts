/** What perf(1) sees of a process, and where each sample belongs. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

/** How many there are of each place, `group: what it is within`. */
export type Samples = Map<string, number>;

interface Frame {
  readonly symbol: string;
  /** The file that the code is from; of the kernel `[...]`. */
  readonly file: string;
}

/** Samples a second of processor time; no multiple of what timers use. */
const FREQUENCY = 1999;

/** Throws where perf may not look at other processes. */
export async function record(pid: number, seconds: number, to: string): Promise<void> {
  const args = ['record', '-q', '-g', '-F', String(FREQUENCY), '-p', String(pid), '-o', to];
  const child = spawn('perf', [...args, '--', 'sleep', String(seconds)], { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0)
    throw new Error(`perf record ended with ${code}: it needs root or kernel.perf_event_paranoid=1`);
}

/** A name without its arguments, template parameters and namespace. */
function short(symbol: string): string {
  return symbol
    .replace(/\(anonymous namespace\)::/g, '')
    .replace(/^(void|bool|auto) /, '')
    .replace(/<.*|\(.*/, '')
    .replace(/^broadsheet::/, '');
}

/** JavaScript, as V8 names it for perf: `JS:*name file:line:column`; ~, ^, + and * say how far it is compiled. */
function scriptOf(symbol: string): string {
  const [, name, file] = /^\w+:[~^+*']*(\S*) ?(?:.*\/)?([^/:]*)/.exec(symbol) ?? [];
  return `${name || '(anonymous)'} ${file ?? ''}`.trimEnd();
}

/** `group: what`. */
function placeOf(frames: readonly Frame[]): string {
  const [leaf] = frames as [Frame];
  // The collector runs inside whatever allocates.
  if (
    frames.some(({ symbol }) =>
      /v8::internal::(Heap::(CollectGarbage|Scavenge)|ScavengerCollector|MarkCompact|Scavenge)/.test(symbol),
    )
  )
    return 'V8: collecting garbage';
  if (leaf.file.startsWith('[') && leaf.file !== '[vdso]') {
    const entry = frames.findIndex(({ symbol }) => /^(do_syscall_64|invoke_syscall)/.test(symbol));
    const call = frames[entry - 1]?.symbol === 'x64_sys_call' ? frames[entry - 2] : frames[entry - 1];
    return `kernel: ${call?.symbol.replace(/^(__(x64|arm64|se)?_?sys_|do_)/, '') ?? 'interrupts, page faults, switches'}`;
  }
  if (leaf.file.endsWith('/broadsheet.node')) return `addon: ${short(leaf.symbol)}`;
  if (/\/perf-\d+\.map$/.test(leaf.file)) {
    if (/^(JS|LazyCompile|Function|Script|Eval|Handler):/.test(leaf.symbol))
      return `JavaScript: ${scriptOf(leaf.symbol)}`;
    return 'V8: interpreter, builtins';
  }
  if (/^(libc|libm|libpthread|ld-)/.test(leaf.file.replace(/.*\//, '')))
    return `C library: ${short(leaf.symbol)}`;
  if (leaf.symbol.startsWith('Builtins_')) return 'V8: interpreter, builtins';
  if (/^(v8impl|napi_|uv_|uv__|node::)/.test(leaf.symbol)) return `Node: ${short(leaf.symbol)}`;
  if (leaf.symbol.startsWith('v8::internal::compiler') || /Turboshaft|Maglev|Sparkplug/i.test(leaf.symbol))
    return 'V8: compiling';
  if (/[vV]8/.test(leaf.symbol)) return 'V8: the rest';
  return `${leaf.file.replace(/.*\//, '')}: ${short(leaf.symbol)}`;
}

/** What `record` wrote of the process: the thread that serves by place, others by their group alone. */
export function read(path: string, pid: number): Samples {
  const text = execFileSync('perf', ['script', '-i', path, '-F', 'tid,ip,sym,dso'], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const samples: Samples = new Map();
  for (const block of text.split('\n\n')) {
    const [head, ...lines] = block.trim().split('\n');
    const frames = lines.flatMap((line) => {
      const [, symbol, file] = /^\s*[0-9a-f]+ (.*) \((.*)\)$/.exec(line) ?? [];
      return symbol === undefined || file === undefined ? [] : [{ symbol, file }];
    });
    if (frames.length === 0) continue;
    const place = placeOf(frames);
    const of = Number(head) === pid ? place : `other threads: ${place.split(':')[0]}`;
    samples.set(of, (samples.get(of) ?? 0) + 1);
  }
  return samples;
}
