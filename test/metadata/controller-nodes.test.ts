import { describe, expect, it } from 'vitest';
import {
  addVoter,
  removeVoter,
  unregisterBroker,
  unregisterController,
} from '../../src/metadata/controller-nodes.ts';
import { ClusterImage, type ImageRecord } from '../../src/metadata/image.ts';
import { errorName } from '../../src/protocol/errors.ts';

const DIRECTORY = 'QUFBQUFBQUFBQUFBQUFBQQ';

function imageAt(level: number): ClusterImage {
  const image = new ClusterImage();
  image.apply({ type: 'FeatureLevel', version: 0, data: { name: 'metadata.version', featureLevel: level } });
  for (const brokerId of [1, 2]) {
    image.apply({
      type: 'RegisterBroker',
      version: 4,
      data: {
        brokerId,
        isMigratingZkBroker: false,
        incarnationId: DIRECTORY,
        brokerEpoch: 10 + brokerId,
        endPoints: [],
        features: [],
        rack: null,
        fenced: true,
        inControlledShutdown: false,
        logDirs: [],
        cordonedLogDirs: [],
      },
    });
  }
  for (const controllerId of [1, 2]) {
    image.apply({
      type: 'RegisterController',
      version: 0,
      data: {
        controllerId,
        incarnationId: DIRECTORY,
        zkMigrationReady: false,
        endPoints: [],
        features: [],
      },
    });
  }
  return image;
}

type Outcome = ReturnType<typeof unregisterBroker>;
const nameOf = (outcome: Outcome) => (outcome.ok ? 'NONE' : errorName(outcome.errorCode));

describe('unregistering', () => {
  it('forgets another broker or controller', () => {
    const image = imageAt(33);
    for (const outcome of [unregisterBroker(image, 1, 2), unregisterController(image, 1, 2)]) {
      if (!outcome.ok) throw new Error(outcome.message);
      for (const record of outcome.records) image.apply(record as ImageRecord);
    }
    expect([...image.brokers.keys()]).toEqual([1]);
    expect([...image.controllers.keys()]).toEqual([1]);
  });

  it('keeps what runs, and refuses what is not', () => {
    const image = imageAt(33);
    expect(nameOf(unregisterBroker(image, 1, 1))).toBe('INVALID_REQUEST');
    expect(nameOf(unregisterBroker(image, 1, 3))).toBe('BROKER_ID_NOT_REGISTERED');
    expect(nameOf(unregisterController(image, 1, 1))).toBe('INVALID_REQUEST');
    expect(nameOf(unregisterController(image, 1, 3))).toBe('CONTROLLER_ID_NOT_REGISTERED');
    expect(nameOf(unregisterController(imageAt(32), 1, 2))).toBe('UNSUPPORTED_VERSION');
  });
});

describe('voters', () => {
  const quorum = { clusterId: 'ours', nodeId: 1, directoryId: DIRECTORY, kraftVersion: 1 };
  const voter = { clusterId: null, voterId: 7, voterDirectoryId: DIRECTORY };
  const ZERO = 'AAAAAAAAAAAAAAAAAAAAAA';

  it('are one, and stay one', () => {
    const add = (more: object, hasEndpoint = true) =>
      errorName(addVoter({ ...quorum, ...more }, { ...voter, ...more }, hasEndpoint).errorCode);
    expect(add({})).toBe('INVALID_REQUEST');
    expect(add({ voterId: 1 })).toBe('DUPLICATE_VOTER');
    expect(add({ voterId: 1 }, false)).toBe('INVALID_REQUEST');
    expect(add({ voterId: -1 })).toBe('INVALID_REQUEST');
    expect(add({ kraftVersion: 0 })).toBe('UNSUPPORTED_VERSION');
    expect(errorName(addVoter(quorum, { ...voter, clusterId: 'theirs' }, true).errorCode)).toBe(
      'INCONSISTENT_CLUSTER_ID',
    );
    const remove = (more: object) => errorName(removeVoter(quorum, { ...voter, ...more }).errorCode);
    expect(remove({})).toBe('VOTER_NOT_FOUND');
    expect(remove({ voterId: 1 })).toBe('VOTER_NOT_FOUND');
    expect(remove({ clusterId: 'theirs' })).toBe('INCONSISTENT_CLUSTER_ID');
    expect(remove({ voterDirectoryId: ZERO })).toBe('INVALID_REQUEST');
    expect(errorName(removeVoter({ ...quorum, kraftVersion: 0 }, voter).errorCode)).toBe(
      'UNSUPPORTED_VERSION',
    );
  });
});
