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

it('is what docs/APIS.md lists; `npx vitest run --project unit test/broker/advertised.test.ts -u` writes it anew', async () => {
  const range = ([least, most]: readonly [number, number]) =>
    least === most ? `${least}` : `${least} to ${most}`;
  const served = [...HANDLERS.values()]
    .sort((a, b) => a.key - b.key)
    .map(({ key, name, advertised }) => `| ${key} | ${name} | ${range(advertised)} |`);
  const absent = API_FACTS.filter(
    (facts) => facts !== undefined && facts.advertised !== null && !HANDLERS.has(facts.key),
  ).map((facts) => `| ${facts!.key} | ${facts!.name} | ${range(facts!.advertised!)} |`);
  const lines = [
    '# APIs and versions',
    '',
    'What ApiVersions answers. A test writes this file from the table of handlers (`test/broker/advertised.test.ts`), and fails',
    'when it is behind.',
    '',
    '| key | API | versions |',
    '|---|---|---|',
    ...served,
    '',
    '## Absent',
    '',
    'What Apache Kafka 4.4 tells its clients of and this broker does not serve.',
    '',
    "| key | API | Kafka's versions |",
    '|---|---|---|',
    ...absent,
    '',
  ];
  await expect(lines.join('\n')).toMatchFileSnapshot('../../docs/APIS.md');
});
