/** What a response is made of. */

/** A segment file that stays readable until release(), also when its segment is deleted. */
export interface HeldFile {
  /** For reads at given positions (fs.read), which may wait for a disk: never on the loop's thread. */
  readonly fd: number;
  /** Says that it could not be read. */
  failed?(): void;
  /** Once, when no read is under way. */
  release(): void;
}

/** The open segment files that the ranges of one kind of log name. */
export interface RangeSource {
  /** Takes a reference to the file of a range, while the range is valid. Throws CLOSED when it is not. */
  hold(segment: number): HeldFile;
}

/** A run of bytes in a segment file. Valid until the end of the tick in which it was read; sending it takes a
 * reference of its own, so that a deleted segment stays readable until the last byte is sent. A transport that knows the
 * source sends it its own way; any other one holds the file and reads it. */
export interface FileRange {
  readonly source: RangeSource;
  /** The number of an open segment file in its source. */
  readonly segment: number;
  readonly position: number;
  /** Bytes; > 0. */
  readonly length: number;
}

/** One piece of a response: bytes that were encoded, or a range of a file that the kernel sends. */
export type Part = Uint8Array | FileRange;
