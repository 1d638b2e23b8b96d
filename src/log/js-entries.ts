/**
 * The file of entries of one size that an index is: appended to with plain writes, a few entries at a time, and read by
 * position. Entries that are not yet in the file are read from memory. What native/sparse_index.* EntryFile is.
 */
import type { BroadsheetError } from '../runtime/errors.ts';
import { corrupt } from './js-batch.ts';
import { CachedFile, type Folder } from './js-descriptors.ts';
import type { JsFile } from './js-file.ts';

/** Entries that wait in memory, bytes: then they are written. */
const PENDING_BYTES = 768;
/** Read at once around an entry. */
const BLOCK_BYTES = 4096;
/** A file of up to so many bytes is read whole. */
const SMALL_FILE_BYTES = 16 * BLOCK_BYTES;

/** The entries as they were at one moment. */
export class EntryView {
  /** Entries in the file, then those in memory. */
  count: number;
  readonly #file: JsFile | undefined;
  readonly #entryBytes: number;
  #stored: number;
  readonly #pending: DataView;
  #block: DataView = new DataView(new ArrayBuffer(0));
  #blockBegins = 0;

  constructor(file: JsFile | undefined, entryBytes: number, stored: number, pending: Buffer) {
    this.#file = file;
    this.#entryBytes = entryBytes;
    this.#stored = stored;
    this.#pending = new DataView(pending.buffer, pending.byteOffset, pending.length);
    this.count = stored + pending.length / entryBytes;
  }

  /** decode(view, at) of an entry: at once where it lies in memory. */
  entry<T>(index: number, decode: (view: DataView, at: number) => T): T | Promise<T> {
    if (index >= this.#stored) return decode(this.#pending, (index - this.#stored) * this.#entryBytes);
    const at = index * this.#entryBytes - this.#blockBegins;
    if (at >= 0 && at + this.#entryBytes <= this.#block.byteLength) return decode(this.#block, at);
    return this.#read(index).then(() => decode(this.#block, index * this.#entryBytes - this.#blockBegins));
  }

  /** Forgets a tail of zero entries of the file. Entries ascend, so that a zero one can only be the first or begin the
   * tail. */
  async dropZeroTail(): Promise<number> {
    const zero = (view: DataView, at: number) => {
      for (let i = at; i < at + this.#entryBytes; i++) if (view.getUint8(i) !== 0) return false;
      return true;
    };
    if (this.count === 0 || !(await this.entry(this.count - 1, zero))) return this.count;
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = low + Math.floor((high - low) / 2);
      if (await this.entry(middle, zero)) high = middle;
      else low = middle + 1;
    }
    this.#stored = low;
    this.count = low;
    return low;
  }

  release(): void {
    this.#file?.release();
  }

  async #read(index: number): Promise<void> {
    const bytes = this.#stored * this.#entryBytes;
    let begins = 0;
    let length = bytes;
    if (bytes > SMALL_FILE_BYTES) {
      begins = Math.max(0, index * this.#entryBytes - BLOCK_BYTES / 2);
      begins -= begins % this.#entryBytes;
      length = Math.min(BLOCK_BYTES, bytes - begins);
    }
    const block = await this.#file!.readAll(length, begins);
    this.#block = new DataView(block.buffer, block.byteOffset, length);
    this.#blockBegins = begins;
  }
}

export class EntryFile {
  readonly file: CachedFile;
  readonly #entryBytes: number;
  #stored = 0;
  #mayHaveZeroTail = false;
  #pending: Buffer = Buffer.allocUnsafeSlow(0);
  #pendingBytes = 0;
  /** Changes of the file by whoever may wait, one after the other. */
  #last: Promise<void> = Promise.resolve();

  constructor(folder: Folder, name: string, entryBytes: number) {
    this.file = new CachedFile(folder, name);
    this.#entryBytes = entryBytes;
  }

  get count(): number {
    return this.#stored + this.#pendingBytes / this.#entryBytes;
  }

  /** Room for one more entry, which the caller fills. */
  append(): { readonly view: DataView; readonly at: number } {
    const at = this.#pendingBytes;
    if (at + this.#entryBytes > this.#pending.length) {
      // Views of the old one stay as they are.
      const grown = Buffer.allocUnsafeSlow(Math.max(PENDING_BYTES + 64, 2 * this.#pending.length));
      grown.set(this.#pending.subarray(0, at));
      this.#pending = grown;
    }
    this.#pendingBytes += this.#entryBytes;
    return { view: new DataView(this.#pending.buffer, this.#pending.byteOffset), at };
  }

  get wantsWrite(): boolean {
    return this.#pendingBytes >= PENDING_BYTES;
  }

  /** Writes what is in memory only. On failure it stays there, and the file holds whole entries or is cut back later. */
  writePending(): void {
    if (this.#pendingBytes === 0) return;
    this.#openOrCreate().writeNow(
      [this.#pending.subarray(0, this.#pendingBytes)],
      this.#stored * this.#entryBytes,
    );
    this.#stored += this.#pendingBytes / this.#entryBytes;
    this.#forgetPending();
  }

  /** Takes the first `count` entries of the file as they are. */
  adopt(count: number): void {
    this.#stored = count;
    this.#forgetPending();
    this.#mayHaveZeroTail = false;
  }

  /** Takes the file of a closed segment; `bytes` is its size. Reads nothing: the tail of zeros that a killed Kafka leaves is
   * looked for before the first look-up. Throws CORRUPT when an index cannot have that size. */
  adoptClosed(bytes: number): void {
    if (bytes % this.#entryBytes !== 0)
      throw corrupt(`${this.file.name}: ${bytes} bytes are not whole entries`);
    this.adopt(bytes / this.#entryBytes);
    this.#mayHaveZeroTail = true;
  }

  /** Forgets all entries from `count` on, in memory and in the file. */
  truncate(count: number): Promise<void> {
    return this.#alone(async () => {
      if (count >= this.#stored) {
        this.#pendingBytes = Math.min(this.#pendingBytes, (count - this.#stored) * this.#entryBytes);
        return;
      }
      this.adopt(count);
      await this.#openOrCreate().truncate(count * this.#entryBytes);
    });
  }

  /** Writes what is in memory only and makes the file end there; makes it if there is none. */
  finish(): Promise<void> {
    return this.#alone(async () => {
      let failure: unknown;
      try {
        this.writePending();
      } catch (error) {
        failure = error;
      }
      const file = this.#openOrCreate().retain();
      try {
        const wanted = this.#stored * this.#entryBytes;
        if ((await file.size()) !== wanted) await file.truncate(wanted);
      } finally {
        file.release();
      }
      if (failure !== undefined) throw failure;
    });
  }

  /** Replaces the whole content. */
  replace(entries: Buffer): Promise<void> {
    return this.#alone(async () => {
      const file = this.#openOrCreate();
      this.adopt(0);
      await file.truncate(0);
      this.#pending = entries;
      this.#pendingBytes = entries.length;
      this.writePending();
    });
  }

  sync(): Promise<void> {
    return this.file.sync();
  }

  /** The entries as they are now; release() it. */
  async view(): Promise<EntryView> {
    const pending = this.#pending.subarray(0, this.#pendingBytes);
    const stored = this.#stored;
    if (stored === 0) return new EntryView(undefined, this.#entryBytes, 0, pending);
    const file = await this.file.open();
    const view = new EntryView(file, this.#entryBytes, stored, pending);
    if (!this.#mayHaveZeroTail) return view;
    try {
      const count = await view.dropZeroTail();
      if (this.#mayHaveZeroTail) this.#stored = count;
      this.#mayHaveZeroTail = false;
      return view;
    } catch (error) {
      view.release();
      throw error;
    }
  }

  #openOrCreate(): JsFile {
    try {
      return this.file.openNow();
    } catch (error) {
      if ((error as BroadsheetError).code !== 'NOT_FOUND') throw error;
      return this.file.openNow('create-new');
    }
  }

  #forgetPending(): void {
    this.#pending = Buffer.allocUnsafeSlow(0);
    this.#pendingBytes = 0;
  }

  #alone(work: () => Promise<void>): Promise<void> {
    const mine = this.#last.then(work);
    this.#last = mine.catch(() => {});
    return mine;
  }
}
