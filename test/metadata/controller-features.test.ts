import { describe, expect, it } from 'vitest';
import { UpgradeType, updateFeatures } from '../../src/metadata/controller-features.ts';
import { KafkaError } from '../../src/protocol/errors.ts';

const SERVED = [
  { name: 'metadata.version', minSupportedVersion: 7, maxSupportedVersion: 33 },
  { name: 'kraft.version', minSupportedVersion: 0, maxSupportedVersion: 1 },
  { name: 'group.version', minSupportedVersion: 0, maxSupportedVersion: 1 },
];
const { UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE } = UpgradeType;

function update(
  levels: Readonly<Record<string, number>>,
  ...updates: readonly (readonly [feature: string, level: number, upgradeType: number])[]
) {
  const decision = updateFeatures(
    new Map(Object.entries(levels)),
    SERVED,
    updates.map(([feature, level, upgradeType]) => ({ feature, level, upgradeType })),
  );
  if (!decision.ok) return decision.errorCode;
  return {
    records: decision.records.map(({ data }) => data),
    ...(decision.kraftVersion === undefined ? {} : { kraftVersion: decision.kraftVersion }),
  };
}

const REFUSED = KafkaError.INVALID_UPDATE_VERSION;

describe('updateFeatures', () => {
  it('moves levels up and down', () => {
    expect(update({}, ['group.version', 1, UPGRADE])).toEqual({
      records: [{ name: 'group.version', featureLevel: 1 }],
    });
    expect(update({ 'group.version': 1 }, ['group.version', 0, SAFE_DOWNGRADE])).toEqual({
      records: [{ name: 'group.version', featureLevel: 0 }],
    });
    expect(update({ 'group.version': 1 }, ['group.version', 1, UPGRADE])).toEqual({ records: [] });
    expect(update({ 'metadata.version': 20 }, ['metadata.version', 33, UPGRADE])).toEqual({
      records: [{ name: 'metadata.version', featureLevel: 33 }],
    });
  });

  it('lets metadata.version down only past levels that changed nothing', () => {
    const from = (level: number) => ({ 'metadata.version': level });
    expect(update(from(29), ['metadata.version', 23, SAFE_DOWNGRADE])).toMatchObject({ records: [{}] });
    expect(update(from(29), ['metadata.version', 22, SAFE_DOWNGRADE])).toBe(REFUSED);
    expect(update(from(31), ['metadata.version', 30, UNSAFE_DOWNGRADE])).toMatchObject({ records: [{}] });
    expect(update(from(31), ['metadata.version', 29, UNSAFE_DOWNGRADE])).toBe(REFUSED);
    expect(update(from(33), ['metadata.version', 32, SAFE_DOWNGRADE])).toBe(REFUSED);
  });

  it('keeps kraft.version out of the records, and never lowers it', () => {
    expect(update({ 'kraft.version': 0 }, ['kraft.version', 1, UPGRADE])).toEqual({
      records: [],
      kraftVersion: 1,
    });
    expect(update({ 'kraft.version': 1 }, ['kraft.version', 0, UNSAFE_DOWNGRADE])).toBe(REFUSED);
  });

  it.each([
    ['share.version', 1, UPGRADE],
    ['share.version', 0, SAFE_DOWNGRADE],
    ['metadata.version', 34, UPGRADE],
    ['metadata.version', 6, UNSAFE_DOWNGRADE],
    ['group.version', -1, SAFE_DOWNGRADE],
    ['group.version', 1, SAFE_DOWNGRADE],
    ['metadata.version', 32, UPGRADE],
    ['group.version', 1, 0],
    ['group.version', 1, 4],
  ] as const)('refuses %s %i by %i, and all that comes with it', (feature, level, upgradeType) => {
    const levels = { 'metadata.version': 33 };
    expect(update(levels, ['group.version', 1, UPGRADE], [feature, level, upgradeType])).toBe(REFUSED);
  });
});
