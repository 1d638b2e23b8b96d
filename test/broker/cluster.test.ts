/** Cluster administration over the broker's requests. */
import { describe, expect, it } from 'vitest';
import { HANDLERS } from '../../src/broker/handlers/index.ts';
import { APIS, type Api } from '../../src/client/apis.ts';
import { errorName } from '../../src/protocol/errors.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { type Asker, CALLS, CASES } from '../support/cluster-cases.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import { TestBroker } from './test-broker.ts';

class Cluster implements Asker {
  readonly test: TestBroker;
  readonly #peer;

  constructor(test: TestBroker) {
    this.test = test;
    this.#peer = test.transport.connect();
  }

  static async start(config: Record<string, string> = {}, engine = new MemoryEngine()): Promise<Cluster> {
    return new Cluster(await TestBroker.start(config, engine));
  }

  request<Request, Response>(
    call: Api<Request, Response>,
    body: Request,
    options: { readonly version?: number } = {},
  ): Promise<Response> {
    const version = options.version ?? HANDLERS.get(call.key)!.served[1];
    return this.test.ask(
      this.#peer,
      call.key,
      version,
      (writer) => call.write(writer, version, body),
      call.read,
    );
  }
}

const quota = (user: string | null, key: string, value: number | null) => ({
  validateOnly: false,
  entries: [
    {
      entity: [{ entityType: 'user', entityName: user }],
      ops: [{ key, value: value ?? 0, remove: value === null }],
    },
  ],
});

const allQuotas = async (cluster: Cluster) =>
  (await cluster.request(CALLS.describeClientQuotas, { components: [], strict: false })).entries;

/** Cases with a name that no file of this machine resolves. */
const ASKS_DNS = /^(no address|an address out of range)/;

describe('cluster administration', () => {
  it.each(Object.keys(CASES) as (keyof typeof CASES)[])('answers every request of %s', async (group) => {
    const cluster = await Cluster.start();
    for (const { name, run } of CASES[group]) {
      if (!ASKS_DNS.test(name)) await run(cluster);
    }
    expect(cluster.test.logger.of('error')).toEqual([]);
    await cluster.test.close();
  });

  it('keeps quotas and credentials over a restart', async () => {
    const engine = new MemoryEngine();
    const before = await Cluster.start({}, engine);
    await before.request(CALLS.alterClientQuotas, quota('alice', 'producer_byte_rate', 100));
    await before.request(CALLS.alterClientQuotas, quota(null, 'request_percentage', 1.5));
    await before.request(CALLS.alterClientQuotas, {
      ...quota('bob', 'producer_byte_rate', 1),
      validateOnly: true,
    });
    await before.request(CALLS.alterScram, {
      deletions: [],
      upsertions: [
        {
          name: 'alice',
          mechanism: 2,
          iterations: 5000,
          salt: new Uint8Array(4),
          saltedPassword: new Uint8Array(64),
        },
      ],
    });
    await before.test.close();
    const after = await Cluster.start({}, engine);
    expect(await allQuotas(after)).toEqual([
      {
        entity: [{ entityType: 'user', entityName: 'alice' }],
        values: [{ key: 'producer_byte_rate', value: 100 }],
      },
      {
        entity: [{ entityType: 'user', entityName: null }],
        values: [{ key: 'request_percentage', value: 1.5 }],
      },
    ]);
    const { results } = await after.request(CALLS.describeScram, { users: null });
    expect(results).toMatchObject([{ user: 'alice', credentialInfos: [{ mechanism: 2, iterations: 5000 }] }]);
    await after.test.close();
  });

  it('says of each entity and user that the log takes nothing', async () => {
    const cluster = await Cluster.start();
    cluster.test.engine.failNextCommit.set(
      '/data/__cluster_metadata-0',
      new BroadsheetError('NO_SPACE', 'full'),
    );
    const { entries } = await cluster.request(
      CALLS.alterClientQuotas,
      quota('alice', 'producer_byte_rate', 100),
    );
    expect(entries.map(({ errorCode }) => errorName(errorCode))).toEqual(['KAFKA_STORAGE_ERROR']);
    const { errorCode } = await cluster.request(CALLS.unregisterBroker, { brokerId: 9 });
    expect(errorName(errorCode)).toBe('BROKER_ID_NOT_REGISTERED');
    await cluster.test.close().catch(() => {});
  });

  it('finalizes a level, and tells of it', async () => {
    const cluster = await Cluster.start();
    const { test } = cluster;
    const software = { clientSoftwareName: 'test', clientSoftwareVersion: '1' };
    const finalized = async () => {
      const answer = await cluster.request(APIS.apiVersions, software);
      return [answer.finalizedFeaturesEpoch, answer.finalizedFeatures];
    };
    const before = await finalized();
    const update = (feature: string, maxVersionLevel: number, upgradeType: number, validateOnly = false) =>
      cluster
        .request(CALLS.updateFeatures, {
          featureUpdates: [{ feature, maxVersionLevel, upgradeType }],
          validateOnly,
        })
        .then(({ errorCode }) => errorName(errorCode));
    expect(await update('metadata.version', 32, 2)).toBe('INVALID_UPDATE_VERSION');
    expect(await update('share.version', 1, 1)).toBe('INVALID_UPDATE_VERSION');
    expect(await update('metadata.version', 33, 1)).toBe('NONE');
    expect(await finalized()).toEqual(before);
    await test.close();
  });
});
