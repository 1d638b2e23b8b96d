/** `npm run bench:engines`: see run.ts. */
import { benchEngines } from './run.ts';

await benchEngines(process.argv.slice(2), (text) => console.log(text));
