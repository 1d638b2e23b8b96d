/** What scripts/build.js makes one file of: the library, and the command, which runs when it is asked for. */
export * from './index.ts';
export { keepCompiledCodeBy } from './runtime/compiled-code.ts';

export const runCommand = (): Promise<unknown> => import('./cli.ts');
