/** Are power cuts any good? Faults are planted in copies of both engines; each has to be found. */
import { expect, it } from 'vitest';
import { Canary, type Edit } from './power/canary.ts';

const CUTS = 200;

const FOLDERS: readonly Edit[] = [
  {
    file: 'src/log/js-file.ts',
    from: "if (process.platform === 'win32') return;",
    to: 'if (path.length > 0) return;',
  },
  {
    file: 'native/file.cc',
    from: 'Status sync_directory(const std::string& path) {',
    to: 'Status sync_directory(const std::string& path) {\n  if (!path.empty()) return Status::Ok();',
  },
  { file: 'native/descriptor_cache.cc', from: 'return folder->fsync();', to: 'return Status::Ok();' },
];

const RECOVERY: readonly Edit[] = [
  {
    file: 'src/log/js-recovery.ts',
    from: 'const walker = checked\n',
    to: 'const walker = checked && this.#dir.length === 0\n',
  },
  {
    file: 'native/log_open.cc',
    from: 'checked ? whole.next(&batch, &found) : plain.next(&batch, &found)',
    to: 'checked && dir_.empty() ? whole.next(&batch, &found) : plain.next(&batch, &found)',
  },
];

it.each([
  ['syncs no folder', FOLDERS],
  ['keeps batches that do not check out in recovery', RECOVERY],
])('a broker that %s is noticed', async (_, edits) => {
  const canary = await Canary.make(edits);
  try {
    const outcomes = await Promise.all(['native', 'js'].map((engine) => canary.powerCuts(engine, 1, CUTS)));
    for (const { cuts, faults } of outcomes) {
      expect(faults.length).toBeGreaterThan(0);
      process.stdout.write(`canary: noticed after ${cuts} cuts: ${faults[1]!.slice(0, 200)}\n`);
    }
  } finally {
    canary.remove();
  }
});
