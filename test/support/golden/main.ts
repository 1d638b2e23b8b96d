/** `npm run golden -- FILE...`: checks golden vectors; the last line is `N passed, N failed`, and any failure is exit
 * code 1. */
import { checkFile } from './vectors.ts';

const files = process.argv.slice(2);
if (files.length === 0) {
  console.error('usage: npm run golden -- FILE...   (JSON lines, plain or .gz)');
  process.exit(2);
}

let passed = 0;
let failed = 0;
for (const file of files) {
  try {
    const result = await checkFile(file);
    passed += result.passed;
    failed += result.failures.length;
    for (const failure of result.failures) console.log(failure);
  } catch (error) {
    failed++;
    console.log(`${file}: ${(error as Error).message}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
