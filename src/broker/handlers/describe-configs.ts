/**
 * DescribeConfigs (key 32), versions 1-4: the values of topics, this broker (by its id, or '' for the defaults of all brokers), its
 * loggers, groups and client metrics, with where each comes from.
 *
 * - v1 has synonyms when they are asked for.
 * - v3 has each key's type, and a text on it when that is asked for.
 *
 * Errors, per resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (another broker's id, an empty
 * name, an unknown type).
 */
import { GROUP_CONFIGS, TOPIC_CONFIGS } from '../../config/definitions.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeConfigsRequest,
  readDescribeConfigsRequest,
  writeDescribeConfigsResponse,
} from '../../protocol/generated/DescribeConfigs.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 4] as const;
const FIRST_WITH_DOCUMENTATION = 3;

/** Keys of topics and groups by the broker key that gives their default. */
const HEIRS: ReadonlyMap<string, string> = new Map(
  [...GROUP_CONFIGS.values(), ...TOPIC_CONFIGS.values()].flatMap(({ name, brokerSynonyms }) =>
    brokerSynonyms.slice(0, 1).map((synonym) => [synonym.name, name] as const),
  ),
);

type Texts = (resourceType: number, key: string) => string | null;

/** The texts are loaded when the first client asks: few do, and the start is not to wait for them. */
async function loadTexts(): Promise<Texts> {
  const { configText } = await import('../../config/config-texts.ts');
  return (resourceType, key) => configText(resourceType, key, (brokerKey) => HEIRS.get(brokerKey));
}

function answer(message: DescribeConfigsRequest, texts: Texts | undefined, broker: BrokerContext) {
  return message.resources.map(({ resourceType, resourceName, configurationKeys }) => {
    const found = broker.configs.describe(resourceType, resourceName);
    if ('ok' in found) {
      const { errorCode, message: errorMessage } = found;
      return { errorCode, errorMessage, resourceType, resourceName, configs: [] };
    }
    const wanted = configurationKeys?.length ? new Set(configurationKeys) : undefined;
    const configs = found
      .filter(({ name }) => wanted === undefined || wanted.has(name))
      .map((config) => ({
        ...config,
        synonyms: message.includeSynonyms ? [...config.synonyms] : [],
        documentation: texts === undefined ? null : texts(resourceType, config.name),
      }));
    return { errorCode: KafkaError.NONE, errorMessage: null, resourceType, resourceName, configs };
  });
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDescribeConfigsRequest(request.body(), version);
  const wantsTexts = version >= FIRST_WITH_DOCUMENTATION && message.includeDocumentation;
  const texts = wantsTexts ? await loadTexts() : undefined;
  const results = answer(message, texts, broker);
  request.reply((writer) => writeDescribeConfigsResponse(writer, version, { throttleTimeMs: 0, results }));
}

export const describeConfigs: HandlerRow = {
  key: 32,
  name: 'DescribeConfigs',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE_CONFIGS', resource: 'CLUSTER' },
  handle,
};
