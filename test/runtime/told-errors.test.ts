import { expect, it } from 'vitest';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { ToldErrors } from '../../src/runtime/told-errors.ts';

it('tells an error once a minute, and remembers only so many', () => {
  const clock = new VirtualClock();
  const told = new ToldErrors(clock);
  expect(['a', 'a', 'b', 'a'].map((text) => told.isNew(text))).toEqual([true, false, true, false]);
  clock.advance(59_999);
  expect(told.isNew('a')).toBe(false);
  clock.advance(1);
  expect([told.isNew('a'), told.isNew('a')]).toEqual([true, false]);
  for (let i = 0; i < 100; i++) expect(told.isNew(`${i}`)).toBe(true);
  expect(told.isNew('a')).toBe(true);
});
