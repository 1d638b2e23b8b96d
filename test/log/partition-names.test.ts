import { describe, expect, it } from 'vitest';
import { parsePartitionFolder, suffixedFolder, suffixOf } from '../../src/log/partition-names.ts';

const UUID = '0123abcd-4567-89ef-0123-456789abcdef';

describe('partition folders', () => {
  it.each([
    ['t-0', { topic: 't', index: 0 }],
    ['a-b.c_d-12', { topic: 'a-b.c_d', index: 12 }],
    ['__consumer_offsets-49', { topic: '__consumer_offsets', index: 49 }],
    ['t-007', undefined],
    ['t-', undefined],
    ['-1', undefined],
    ['t-99999999999', undefined],
    ['lost+found', undefined],
    ['t-0.0123abcd456789ef0123456789abcdef-delete', undefined],
  ])('%s', (name, parsed) => {
    expect(parsePartitionFolder(name)).toEqual(parsed);
  });

  it('are renamed as Kafka renames them', () => {
    const name = suffixedFolder('t', 3, UUID, 'delete');
    expect(name).toBe('t-3.0123abcd456789ef0123456789abcdef-delete');
    expect(suffixOf(name)).toBe('delete');
    expect(suffixOf(suffixedFolder('t', 3, UUID, 'stray'))).toBe('stray');
    expect(suffixOf('t-0')).toBeUndefined();
  });

  it('fit 255 bytes however long the topic name', () => {
    const name = suffixedFolder('x'.repeat(249), 12345, UUID, 'delete');
    expect(name).toHaveLength(255);
    expect(name.endsWith('x-12345.0123abcd456789ef0123456789abcdef-delete')).toBe(true);
    expect(suffixOf(name)).toBe('delete');
  });
});
