/** What ApiVersions tells of, beside what Apache Kafka 4.4 does. */
import { expect, it } from 'vitest';
import { HANDLERS } from '../../src/broker/handlers/index.ts';
import { API_FACTS } from '../../src/protocol/generated/api-keys.ts';

/** Security, share groups, and the telemetry that a Kafka without a reporter does not tell of. */
const ABSENT = /^Sasl|Acls$|DelegationToken$|Share|Telemetry/;

it('every API and version that Kafka tells of, but for those that are left out on purpose', () => {
  const ofKafka = API_FACTS.filter((facts) => facts !== undefined)
    .filter(({ advertised, name }) => advertised !== null && !ABSENT.test(name))
    .map(({ key, name, advertised }) => ({ key, name, advertised }));
  const ours = [...HANDLERS.values()].map(({ key, name, advertised }) => ({ key, name, advertised }));
  expect(ours.filter(({ name }) => !ABSENT.test(name))).toEqual(ofKafka);
});
