// Generates the codecs of src/protocol/generated from src/protocol/schemas: a module per API and per record family, and
// the table of APIs. The output depends on nothing but the schemas and these scripts.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { emitModule } from './generate/module.js';
import { emitApiKeys, emitErrorCodes } from './generate/tables.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const schemas = path.join(root, 'src/protocol/schemas');
const output = path.join(root, 'src/protocol/generated');

const read = (...names) => JSON.parse(fs.readFileSync(path.join(schemas, ...names), 'utf8'));
const list = (folder) => fs.readdirSync(path.join(schemas, folder)).sort();

const files = new Map();
for (const file of list('api')) {
  const api = read('api', file);
  const text = emitModule(`${api.name} (API key ${api.apiKey})`, [api.request, api.response]);
  if (text !== undefined) files.set(`${api.name}.ts`, text);
}
for (const file of list('records')) {
  const family = file.replace(/\.json$/, '');
  const records = read('records', file);
  const messages = records.flatMap((record) => ('key' in record ? [record.key, record.value] : [record]));
  const ids = records
    .map((record) => [record.name, record.apiKey ?? record.id])
    .filter(([, id]) => id !== undefined);
  files.set(`${family}.ts`, emitModule(`Records of ${family}`, messages, ids));
}
files.set('api-keys.ts', emitApiKeys(read('api-keys.json')));
files.set('error-codes.ts', emitErrorCodes(read('errors.json')));

fs.mkdirSync(output, { recursive: true });
for (const name of fs.readdirSync(output)) {
  if (!files.has(name)) fs.rmSync(path.join(output, name), { recursive: true });
}
for (const [name, text] of files) {
  const file = path.join(output, name);
  // An unchanged file keeps its time, so that tools that watch it stay quiet.
  if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== text) fs.writeFileSync(file, text);
}
