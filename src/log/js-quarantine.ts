/**
 * What recovery takes off a log is kept: in files beside it whose names end in `.quarantine`. Nothing reads them, and they go with
 * the partition's folder only. What is all zeros is not kept: a power cut leaves that, and there is nothing in it. The same
 * as native/quarantine.cc.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { type JsFile, removeFile, renamePath, statPath, syncFolder, withFile } from './js-file.ts';
import { passes } from './js-segment.ts';

const CHUNK_BYTES = 1024 * 1024;
const NAMES_TRIED = 10_000;

async function* chunks(file: JsFile, position: number, end: number): AsyncGenerator<[Buffer, number]> {
  for (let at = position; at < end; ) {
    const chunk = await file.readAll(Math.min(CHUNK_BYTES, end - at), at);
    yield [chunk, at - position];
    at += chunk.length;
  }
}

async function isAllZero(file: JsFile, position: number, end: number): Promise<boolean> {
  for await (const [chunk] of chunks(file, position, end)) {
    if (chunk.some((byte) => byte !== 0)) return false;
  }
  return true;
}

/** A name for what was at `position` of a segment's file that nothing in the folder has: what an earlier cut left is not written
 * over. */
export async function freeQuarantineName(dir: string, name: string, position: number): Promise<string> {
  for (let i = 0; i < NAMES_TRIED; i++) {
    const candidate = `${name}.${position}${i === 0 ? '' : `.${i}`}.quarantine`;
    try {
      await statPath(`${dir}/${candidate}`);
    } catch (error) {
      if ((error as BroadsheetError).code === 'NOT_FOUND') return candidate;
      throw error;
    }
  }
  throw new BroadsheetError('LIMIT', `${dir} holds too many files like ${name}.${position}.quarantine`);
}

export class Quarantine {
  readonly #dir: string;
  readonly #kept: string[] = [];
  #lost = '';

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Copies the bytes of a segment's file from `position` to `end`; durable when resolved. Where there is no space for them they
   * are not kept, which is no failure. */
  async keepTail(name: string, file: JsFile, position: number, end: number): Promise<void> {
    if (await isAllZero(file, position, end)) return;
    const kept = await freeQuarantineName(this.#dir, name, position);
    const temporary = `${this.#dir}/${kept}.tmp`;
    try {
      await this.#copy(file, position, end, temporary);
      await renamePath(temporary, `${this.#dir}/${kept}`);
      await syncFolder(this.#dir);
      this.#kept.push(kept);
    } catch (error) {
      if (!(error instanceof BroadsheetError) || !passes(error)) throw error;
      this.#lost = error.message;
      await removeFile(temporary).catch((removal: BroadsheetError) => {
        if (removal.code !== 'NOT_FOUND') throw removal;
      });
    }
  }

  /** Renames a segment's file, or removes it; durable with the next sync of the folder. */
  async keepWhole(name: string): Promise<void> {
    const path = `${this.#dir}/${name}`;
    const isZero = await withFile(path, 'read', async (file) => isAllZero(file, 0, await file.size()));
    if (isZero) return removeFile(path);
    const kept = await freeQuarantineName(this.#dir, name, 0);
    this.#kept.push(kept);
    await renamePath(path, `${this.#dir}/${kept}`);
  }

  /** For the report; empty if nothing was to be kept. */
  text(): string {
    const [first, ...more] = this.#kept;
    const kept = first === undefined ? '' : `; what was cut is kept in ${first}`;
    const others = more.length === 0 ? '' : ` and ${more.length} more`;
    return kept + others + (this.#lost === '' ? '' : `; not all that was cut could be kept: ${this.#lost}`);
  }

  async #copy(file: JsFile, position: number, end: number, to: string): Promise<void> {
    await withFile(to, 'create', async (out) => {
      // A start before may have been killed while it wrote.
      await out.truncate(0);
      for await (const [chunk, at] of chunks(file, position, end)) out.writeNow([chunk], at);
      await out.fsync();
    });
  }
}
