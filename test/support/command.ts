/** Other programs as producers and consumers of bytes, however many. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';

export interface CommandOptions {
  /** For its standard input; default: nothing. */
  readonly input?: string;
  readonly onOutput?: (chunk: Buffer) => void;
}

/** Both outputs of a command, as text; throws with them if it fails. What onOutput gets is not kept. */
export async function outputs(
  file: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<{ stdout: string; stderr: string }> {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', options.onOutput ?? ((chunk: Buffer) => stdout.push(chunk)));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  // A command that ends early closes its input; its code and errors say why.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const code = await ended;
  const texts = { stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
  if (code !== 0) {
    throw new Error(
      `${file} ${args.join(' ')} ended with ${code}\n${texts.stderr}${texts.stdout.slice(-10_000)}`,
    );
  }
  return texts;
}

export interface Measured {
  readonly bytes: number;
  readonly lines: number;
  readonly sha256: string;
}

/** Counts and hashes bytes as they pass. */
export class Meter {
  readonly #hash = createHash('sha256');
  #bytes = 0;
  #lines = 0;

  add(chunk: Uint8Array): void {
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) this.#lines++;
  }

  result(): Measured {
    return { bytes: this.#bytes, lines: this.#lines, sha256: this.#hash.copy().digest('hex') };
  }
}

/** Everything that kcat reads of a partition from its start to its end, a line per record. */
export async function kcatRead(address: string, topic: string, partition = 0): Promise<Measured> {
  const meter = new Meter();
  const args = ['-b', address, '-C', '-t', topic, '-p', String(partition), '-o', 'beginning', '-e', '-q'];
  await outputs('kcat', args, { onOutput: (chunk) => meter.add(chunk) });
  return meter.result();
}
