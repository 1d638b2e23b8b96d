import { type Addon, addon } from '../../src/native.ts';

/** What the addon exports for tests only (native/test_binding.cc). Numbers below 0 are status codes. */
export interface NativeTesting {
  /** The next call of that name in native/file.h's SystemCalls, after `skip` good ones, fails `times` times with errno;
   * with errno 0 it moves at most `limit` bytes. For the whole process. */
  setFault(call: string, skip: number, times: number, errno: number, limit: number): number;
  clearFaults(): void;
  /** How many calls will go well before the fault of a call strikes; -1 when it has, or there is none. */
  faultSkips(call: string): number;
  openFile(path: string, mode: 'read' | 'read-write' | 'create' | 'create-new'): number;
  closeFile(file: number): boolean;
  /** Bytes read. */
  read(file: number, buffer: Uint8Array, position: number, how: 'all' | 'some' | 'cached'): number;
  write(file: number, buffers: readonly Uint8Array[], position: number): number;
  act(file: number, what: FileAct, position: number, length: number): number;
  /** Maps `length` bytes, copies what fits into the buffer, unmaps. */
  /** One sendfile: bytes sent, 0 when it would block. */
  send(file: number, socket: number, position: number, length: number): number;
  /** Keeps an I/O thread busy for so long, then calls back. */
  work(milliseconds: number, done: () => void): number;
  inFlight(): number;
  /** Changes of files are written down from now on. */
  beginJournal(): void;
  endJournal(): void;
  /** What was written down since the last call, as native/file_journal.h says. */
  takeJournal(): Buffer;
  /** 1: what is submitted to the I/O threads waits for step(); 0: they run again. */
  setStepped(stepped: 0 | 1): void;
  waiting(): number;
  /** Runs one work that waits, on this thread. */
  step(place: number): boolean;
  /** What malloc() has given out to the whole process, bytes; 0 where the C library can't say. */
  allocatedBytes(): number;
}

export type FileAct =
  | 'size'
  | 'resident'
  | 'fdatasync'
  | 'fsync'
  | 'truncate'
  | 'start-writeback'
  | 'will-need'
  | 'reserve';

export function nativeTesting(): NativeTesting {
  return (addon() as Addon & { testing: NativeTesting }).testing;
}

/** The name of the code behind a result: 'OK' or that of the failure. */
export function codeOf(result: number): string {
  return result >= 0 ? 'OK' : (addon().codes[-result] ?? `unknown ${result}`);
}
