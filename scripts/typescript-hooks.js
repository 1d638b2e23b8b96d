// Module hooks of scripts/typescript.js.
import fs from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transformWithOxc } from 'vite';

export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  const file = fileURLToPath(url);
  const { code } = await transformWithOxc(await fs.readFile(file, 'utf8'), file, { sourcemap: false });
  return { format: 'module', source: code, shortCircuit: true };
}
