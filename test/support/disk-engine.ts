/** An engine over real files for tests that hand a directory to another program: MemoryLog for the logic, node:fs for the
 * bytes. Logs are read whole when opened and cut at the first batch that does not check out. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Files, Log, OpenOptions } from '../../src/log/log.ts';
import { frameBytes, RecordBatch } from '../../src/protocol/records/reader.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { batchInfoOf, MemoryEngine, MemoryFiles, MemoryLog } from './memory-log.ts';

class DiskFiles extends MemoryFiles implements Files {
  override async read(path: string): Promise<Buffer> {
    try {
      return fs.readFileSync(path);
    } catch (error) {
      throw new BroadsheetError('NOT_FOUND', (error as Error).message);
    }
  }
  override async writeAtomic(path: string, data: Uint8Array | string): Promise<void> {
    fs.writeFileSync(`${path}.tmp`, data);
    fs.renameSync(`${path}.tmp`, path);
  }
  override async createDurable(path: string, data: Uint8Array | string): Promise<void> {
    fs.mkdirSync(join(path, '..'), { recursive: true });
    fs.writeFileSync(path, data, { flag: 'wx' });
  }
  override async list(path: string): Promise<{ name: string; directory: boolean; size: number }[]> {
    return fs.readdirSync(path, { withFileTypes: true }).map((entry) => ({
      name: entry.name,
      directory: entry.isDirectory(),
      size: fs.statSync(join(path, entry.name)).size,
    }));
  }
  override async exists(path: string): Promise<boolean> {
    return fs.existsSync(path);
  }
  override async mkdir(path: string): Promise<void> {
    fs.mkdirSync(path, { recursive: true });
  }
  override async remove(path: string): Promise<void> {
    fs.rmSync(path, { force: true });
  }
}

/** The whole batches of bytes whose checksum is right, up to the first that is not. */
function goodBatches(bytes: Buffer): Uint8Array[] {
  const batches: Uint8Array[] = [];
  for (let at = 0; ; ) {
    let size: number | undefined;
    try {
      size = frameBytes(bytes, at, bytes.length);
      if (size === undefined) return batches;
      new RecordBatch(bytes, at).ensureValid();
    } catch {
      return batches;
    }
    batches.push(bytes.subarray(at, at + size));
    at += size;
  }
}

export class DiskEngine extends MemoryEngine {
  constructor() {
    super(new DiskFiles());
  }

  override async open(dir: string, options: OpenOptions): Promise<Log> {
    fs.mkdirSync(dir, { recursive: true });
    const segments = fs
      .readdirSync(dir)
      .filter((name) => /^\d{20}\.log$/.test(name))
      .sort()
      .map((name) => {
        const segment = this.newSegment(Number(name.slice(0, 20)));
        const path = join(dir, name);
        for (const bytes of goodBatches(fs.readFileSync(path))) {
          segment.batches.push({ info: batchInfoOf(bytes, 0), bytes });
          segment.bytes += bytes.length;
        }
        fs.truncateSync(path, segment.bytes);
        return segment;
      });
    const last = segments.at(-1);
    const endOffset = (last?.batches.at(-1)?.info.lastOffset ?? (last?.baseOffset ?? 0) - 1) + 1;
    const log = new MemoryLog(this, dir, options, segments.length > 0 ? { segments, endOffset } : undefined);
    this.logs.add(log);
    const path = join(dir, `${String(log.activeSegmentBaseOffset).padStart(20, '0')}.log`);
    if (!fs.existsSync(path)) fs.writeFileSync(path, '');
    return log;
  }

  override commit(done: (log: Log, error: BroadsheetError | undefined) => void): void {
    const before = new Map([...this.logs].map((log) => [log, log.sizeInBytes]));
    super.commit((log, error) => {
      const memory = log as MemoryLog;
      const added = memory.sizeInBytes - (before.get(memory) as number);
      const read = log.read(log.activeSegmentBaseOffset, 2 ** 31, log.writtenOffset, true);
      if (added > 0 && read.kind === 'range') {
        const active = memory.bytesOf(read.range.segment, 0, 2 ** 31) as Uint8Array;
        const path = join(log.dir, `${String(log.activeSegmentBaseOffset).padStart(20, '0')}.log`);
        fs.appendFileSync(path, active.subarray(active.length - added));
      }
      done(log, error);
    });
  }
}
