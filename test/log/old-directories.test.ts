/** Directories that earlier commits of this repository wrote and a kill left: each opens with what was in it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createBroker } from '../../src/index.ts';
import { fixtureNames, readDirectory, unpackFixture } from '../support/directory-fixture.ts';

describe.each(['native', 'js'] as const)('engine=%s', (engine) => {
  it.each(fixtureNames())('opens %s, and again after a clean stop', async (name) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'broadsheet-old-directory-'));
    try {
      const content = unpackFixture(name, dataDir);
      expect(Object.keys(content.topics).length).toBeGreaterThan(3);
      for (let start = 0; start < 2; start++) {
        const broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine });
        try {
          expect(await readDirectory(broker.bootstrapServers)).toEqual(content);
        } finally {
          await broker.close();
        }
      }
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});
