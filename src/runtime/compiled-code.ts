/** What V8 has compiled in this process, which the package keeps for the next start. */

let keeper: (() => Promise<void>) | undefined;

/** Said by the package's loader (load.ts) where there is something to keep. */
export function keepCompiledCodeBy(keep: () => Promise<void>): void {
  keeper = keep;
}

/** Called when the process has done what it is for, so that what it needs has been compiled. Once; later calls do nothing. */
export async function keepCompiledCode(): Promise<void> {
  const keep = keeper;
  keeper = undefined;
  await keep?.();
}
