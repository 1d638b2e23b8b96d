/**
 * The one file that loads the addon. It declares all that crosses the border and turns each Status into a
 * BroadsheetError.
 *
 * Rules of the border: a call that can fail returns a negative status code (hot calls; details by lastStatus()) or a
 * StatusObject (cold calls), or hands one to its callback. Nothing throws across. Offsets, positions and ids are doubles.
 * Results of hot calls lie in a Float64Array that both sides share; its slots are named by the addon itself (`slots`), so
 * no number is written down twice.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { BroadsheetError, type ErrorCode } from './runtime/errors.ts';

/** A Status that is not OK, as the addon hands it over. */
export interface StatusObject {
  readonly code: ErrorCode;
  readonly errno: number;
  readonly context: string;
}

export interface Addon {
  /** Name of each status code by its number (native/status.h). */
  readonly codes: readonly ErrorCode[];
  /** The Status behind the last negative result on this thread. */
  lastStatus(): StatusObject;
}

let loaded: Addon | undefined;

/** Loads the addon once. Throws ADDON_UNAVAILABLE, naming what was tried. */
export function addon(): Addon {
  if (loaded === undefined) {
    const require = createRequire(import.meta.url);
    // src/native.ts and dist/native.js lie at the same depth.
    const root = fileURLToPath(new URL('..', import.meta.url));
    try {
      loaded = require('node-gyp-build')(root) as Addon;
    } catch (error) {
      throw new BroadsheetError(
        'ADDON_UNAVAILABLE',
        `the native addon does not load on ${process.platform}-${process.arch}: ${(error as Error).message}`,
        0,
        { cause: error },
      );
    }
  }
  return loaded;
}

export function toError(status: StatusObject): BroadsheetError {
  return new BroadsheetError(status.code, status.context, status.errno);
}

/** Passes a hot call's result on, or throws its Status. */
export function check(result: number): number {
  if (result < 0) throw toError(addon().lastStatus());
  return result;
}
