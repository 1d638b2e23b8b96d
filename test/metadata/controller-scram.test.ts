import { pbkdf2Sync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { alterScram, type ScramDeletion, type ScramUpsertion } from '../../src/metadata/controller-scram.ts';
import { ClusterImage, type ImageRecord } from '../../src/metadata/image.ts';
import { errorName } from '../../src/protocol/errors.ts';

function imageAt(level: number): ClusterImage {
  const image = new ClusterImage();
  image.apply({ type: 'FeatureLevel', version: 0, data: { name: 'metadata.version', featureLevel: level } });
  return image;
}

function alter(
  image: ClusterImage,
  deletions: readonly ScramDeletion[],
  upsertions: readonly ScramUpsertion[],
): Record<string, string> {
  const { results, records } = alterScram(image, deletions, upsertions);
  for (const record of records) image.apply(record as ImageRecord);
  return Object.fromEntries(results.map(({ user, errorCode }) => [user, errorName(errorCode)]));
}

const upsertion = (name: string, more: Partial<ScramUpsertion> = {}): ScramUpsertion => ({
  name,
  mechanism: 1,
  iterations: 4096,
  salt: new Uint8Array([1]),
  saltedPassword: new Uint8Array(32).fill(1),
  ...more,
});

describe('alterScram', () => {
  it('keeps the keys of RFC 7677', () => {
    // Its example: user "user", password "pencil".
    const salt = Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64');
    const saltedPassword = pbkdf2Sync('pencil', salt, 4096, 32, 'sha256');
    const image = imageAt(33);
    expect(alter(image, [], [upsertion('user', { salt, saltedPassword })])).toEqual({ user: 'NONE' });
    const credential = image.security.scram.get('user')?.get(1);
    expect(Buffer.from(credential?.storedKey ?? []).toString('base64')).toBe(
      'WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=',
    );
    expect(Buffer.from(credential?.serverKey ?? []).toString('base64')).toBe(
      'wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
    );
    expect(credential?.iterations).toBe(4096);
  });

  it('sets and deletes by mechanism', () => {
    const image = imageAt(33);
    alter(image, [], [upsertion('a')]);
    alter(image, [], [upsertion('a', { mechanism: 2, iterations: 16384 })]);
    expect([...(image.security.scram.get('a')?.keys() ?? [])]).toEqual([1, 2]);
    expect(alter(image, [{ name: 'a', mechanism: 1 }], [])).toEqual({ a: 'NONE' });
    expect(alter(image, [{ name: 'a', mechanism: 1 }], [])).toEqual({ a: 'RESOURCE_NOT_FOUND' });
    expect([...(image.security.scram.get('a')?.keys() ?? [])]).toEqual([2]);
  });

  it('refuses users one by one', () => {
    const image = imageAt(33);
    expect(
      alter(
        image,
        [{ name: 'nobody', mechanism: 1 }],
        [
          upsertion('good'),
          upsertion('few', { iterations: 4095 }),
          upsertion('many', { iterations: 16385 }),
          upsertion('strange', { mechanism: 3 }),
          upsertion('', {}),
          upsertion('empty', { saltedPassword: new Uint8Array() }),
          upsertion('long', { salt: new Uint8Array(65_537) }),
          upsertion('n'.repeat(65_537)),
        ],
      ),
    ).toEqual({
      good: 'NONE',
      nobody: 'RESOURCE_NOT_FOUND',
      few: 'UNACCEPTABLE_CREDENTIAL',
      many: 'UNACCEPTABLE_CREDENTIAL',
      strange: 'UNSUPPORTED_SASL_MECHANISM',
      '': 'UNACCEPTABLE_CREDENTIAL',
      empty: 'UNACCEPTABLE_CREDENTIAL',
      long: 'UNACCEPTABLE_CREDENTIAL',
      ['n'.repeat(65_537)]: 'UNACCEPTABLE_CREDENTIAL',
    });
    expect([...image.security.scram.keys()]).toEqual(['good']);
  });

  it('refuses a user that comes twice, and changes nothing of it', () => {
    const image = imageAt(33);
    alter(image, [], [upsertion('a'), upsertion('b')]);
    expect(
      alter(
        image,
        [
          { name: 'a', mechanism: 1 },
          { name: 'b', mechanism: 1 },
          { name: 'b', mechanism: 1 },
        ],
        [upsertion('a'), upsertion('c'), upsertion('c', { mechanism: 2 })],
      ),
    ).toEqual({ a: 'DUPLICATE_RESOURCE', b: 'DUPLICATE_RESOURCE', c: 'DUPLICATE_RESOURCE' });
    expect([...image.security.scram.keys()]).toEqual(['a', 'b']);
  });

  it('needs a metadata.version that holds credentials', () => {
    expect(alter(imageAt(10), [], [upsertion('a')])).toEqual({ a: 'UNSUPPORTED_VERSION' });
    expect(alter(imageAt(11), [], [upsertion('a')])).toEqual({ a: 'NONE' });
  });
});
