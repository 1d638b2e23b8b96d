import { BroadsheetError } from '../../runtime/errors.ts';

/** What a compressed payload gave: all of it, or what came out before the fault. A stream that reads record by record
 * gets as far as `bytes` reach, and so Kafka's does. */
export interface Inflated {
  readonly bytes: Uint8Array;
  readonly fault: BroadsheetError | undefined;
}

export const NOTHING: Uint8Array = new Uint8Array(0);

/** The payload is not what its codec says. */
export function broken(codec: string, what: string, cause?: unknown): BroadsheetError {
  return new BroadsheetError('BATCH_CORRUPT', `the ${codec} payload does not decompress: ${what}`, 0, {
    cause,
  });
}

/** A decompression bomb, or a limit too low. */
export function tooLarge(codec: string, limit: number): BroadsheetError {
  return new BroadsheetError(
    'BATCH_TOO_LARGE',
    `the ${codec} payload decompresses to more than the limit of ${limit} bytes`,
  );
}

export function concat(chunks: readonly Uint8Array[]): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  return Buffer.concat(chunks);
}
