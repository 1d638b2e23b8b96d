// `node --import ./scripts/typescript.js FILE.ts` runs TypeScript on every Node that we support: development tools and
// benchmarks are not part of dist/. Types are taken off as a module is loaded; nothing is checked.
import { register } from 'node:module';

if (!process.features.typescript) register('./typescript-hooks.js', import.meta.url);
