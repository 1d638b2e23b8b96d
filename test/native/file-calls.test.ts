import { describe, expect, it } from 'vitest';
import { addon } from '../../src/native.ts';

describe('calls about whole files', () => {
  it('refuse arguments of the wrong kind and do not call back', () => {
    const never = () => {
      throw new Error('called');
    };
    const raw = addon() as unknown as Record<string, (...args: unknown[]) => number>;
    for (const [name, ...args] of [
      ['readFile', 5, 10, never],
      ['readFile', '/x', -1, never],
      ['readFile', '/x', 1.5, never],
      ['readFile', '/x', Number.NaN, never],
      ['readFile', '/x', 10],
      ['writeAtomic', '/x', 7, never],
      ['writeAtomic', '/x', null, never],
      ['writeAtomic', '/x', 'y', {}],
      ['createInFolder', '/x'],
      ['syncFolder', '/x'],
      ['listFolder'],
      ['pathExists', {}, never],
      ['makeFolder', '/x', 'callback'],
      ['renamePath', '/x', 1, never],
      ['removeFile', undefined, never],
      ['removeTree', Symbol('x'), never],
      ['lockFile', '/x', 1, never],
      ['releaseLock', 'x'],
      ['releaseLock', -1],
    ] as [string, ...unknown[]][]) {
      expect(addon().codes[-raw[name]!(...args)]).toBe('INVALID_ARGUMENT');
      expect(addon().lastStatus().context).toMatch(/ must be /);
    }
    expect(addon().codes[-addon().releaseLock(12345)]).toBe('CLOSED');
  });
});
