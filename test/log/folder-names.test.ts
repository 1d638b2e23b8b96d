import { describe, expect, it } from 'vitest';
import { FolderNames, parentOf } from '../../src/log/folder-names.ts';

describe('FolderNames', () => {
  const begun: string[] = [];
  const ends: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const removed: string[] = [];
  const names = new FolderNames({
    sync: (folder) => {
      begun.push(folder);
      return new Promise((resolve, reject) => ends.push({ resolve, reject }));
    },
    removeTree: async (folder) => void removed.push(folder),
  });
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  it('has those share a sync who came while another ran, and nobody one that began before', async () => {
    const done: string[] = [];
    const sync = (folder: string) => names.sync(folder).then(() => done.push(folder));
    const all = [sync('/d/a')];
    await settled();
    all.push(sync('/d/b'), sync('/d/c'), sync('/e/a'));
    expect(begun).toEqual(['/d', '/e']);
    ends[0]!.resolve();
    await settled();
    expect(done).toEqual(['/d/a']);
    expect(begun).toEqual(['/d', '/e', '/d']);
    all.push(sync('/d/d'));
    ends[2]!.resolve();
    await settled();
    expect(done).toEqual(['/d/a', '/d/b', '/d/c']);
    expect(begun).toEqual(['/d', '/e', '/d', '/d']);
    for (const end of ends) end.resolve();
    await Promise.all(all);
    expect(removed).toEqual([]);
  });

  it('removes what could not be made durable, and goes on with the next', async () => {
    const before = ends.length;
    const first = names.sync('/d/a');
    const second = names.sync('/d/b');
    ends[before]!.reject(new Error('no'));
    await expect(first).rejects.toThrow('no');
    await settled();
    ends[before + 1]!.resolve();
    await second;
    expect(removed).toEqual(['/d/a']);
  });
});

describe('parentOf', () => {
  it('is the folder around a path', () => {
    expect(['/a/b', '/a', 'a', 'a/b/', '/'].map(parentOf)).toEqual(['/a', '/', '.', 'a', '/']);
  });
});
