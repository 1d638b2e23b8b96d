/** Files in the addon's table, for a transport that is not the addon's. */
import { addon, check } from '../native.ts';
import type { HeldFile, RangeSource } from '../protocol/part.ts';

export const nativeRanges: RangeSource = {
  hold(segment: number): HeldFile {
    const native = addon();
    const handle = check(native.fileHold(segment));
    return { fd: check(native.fileDescriptor(handle)), release: () => check(native.fileRelease(handle)) };
  },
};
