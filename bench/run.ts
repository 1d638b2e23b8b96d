/** `npm run bench`: see suites.ts. */
import { bench } from './suites.ts';

process.exitCode = await bench(process.argv.slice(2), (text) => console.log(text));
