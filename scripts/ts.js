// `node scripts/ts.js FILE [ARGUMENT...]` runs a TypeScript file of this checkout as it stands; also the entry of workers.
// Node 20 does not strip types by itself.
import { resolve } from 'node:path';
import { runnerImport } from 'vite';

const file = resolve(process.argv[2]);
// The file sees its own arguments where it would see them without this detour.
process.argv.splice(1, 1);
await runnerImport(file, { configFile: false, logLevel: 'error' });
