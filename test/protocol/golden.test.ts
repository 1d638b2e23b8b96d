import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkFile, checkLine, readLines } from '../support/golden/vectors.ts';

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/golden/${name}`, import.meta.url));

describe('golden vectors', () => {
  it.each([
    ['apis.jsonl.gz', 2472],
    ['records.jsonl.gz', 504],
    ['record-batches.jsonl.gz', 100],
    ['record-batches-corrupt.jsonl.gz', 124],
    ['produce-outcomes.jsonl.gz', 224],
  ])('%s', async (name, count) => {
    const result = await checkFile(fixture(name));
    expect(result.failures).toEqual([]);
    expect(result.passed).toBe(count);
  });

  it('finds a changed byte, a changed value and a field that the version lacks', async () => {
    const line = readLines(fixture('apis.jsonl.gz'))[1]!;
    const vector = JSON.parse(line);
    expect(await checkLine(line, '')).toBeUndefined();
    const bytes = { ...vector, hex: `${vector.hex.slice(0, -2)}ff` };
    expect(await checkLine(JSON.stringify(bytes), '')).toMatch(/^Produce request v3: /);
    const value = { ...vector, json: { ...vector.json, acks: 1 } };
    expect(await checkLine(JSON.stringify(value), '')).toMatch(/\$\.acks: -9606, expected 1/);
    const lacks = { ...vector, json: { ...vector.json, other: 1 } };
    expect(await checkLine(JSON.stringify(lacks), '')).toMatch(/other/);
    expect(await checkLine('{"neither": 1}', '')).toMatch(/no check is known/);
    expect(await checkLine('nonsense', '')).toMatch(/JSON/);
  });
});
