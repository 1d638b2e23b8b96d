/** What a response is made of. */

/** A run of bytes in a segment file. Valid until the end of the tick in which it was read; sending it takes a
 * reference of its own, so that a deleted segment stays readable until the last byte is sent. */
export interface FileRange {
  /** Handle of an open segment file in the engine's table. */
  readonly segment: number;
  readonly position: number;
  /** Bytes; > 0. */
  readonly length: number;
}

/** One piece of a response: bytes that were encoded, or a range of a file that the kernel sends. */
export type Part = Uint8Array | FileRange;
