/** Subscriptions for clients' metrics (KIP-714): which values Kafka takes. They are stored; no metrics are asked of clients. */
import { BroadsheetError } from '../runtime/errors.ts';
import { CLIENT_METRICS_CONFIGS, parseConfig } from './definitions.ts';

const LEAST_INTERVAL_MS = 100;
const GREATEST_INTERVAL_MS = 3_600_000;
/** What a pattern may look at. */
const MATCHABLE: ReadonlySet<string> = new Set([
  'client_instance_id',
  'client_id',
  'client_software_name',
  'client_software_version',
  'client_source_address',
  'client_source_port',
]);

/** One pattern, `attribute=regular expression`. Throws INVALID_CONFIG. */
function checkPattern(pattern: string): void {
  const refuse = (why: string) => {
    throw new BroadsheetError('INVALID_CONFIG', `Illegal client matching pattern ${pattern}: ${why}`);
  };
  const [attribute, expression, ...rest] = pattern.split('=').map((part) => part.trim());
  if (attribute === undefined || expression === undefined || rest.length > 0)
    refuse('expected attribute=regular expression');
  if (!MATCHABLE.has(attribute!)) refuse(`${attribute} is none of ${[...MATCHABLE].join(', ')}`);
  try {
    new RegExp(expression!);
  } catch {
    refuse('the regular expression is broken');
  }
}

/** Throws INVALID_CONFIG, INVALID_REQUEST. */
export function validateClientMetricsConfigs(values: ReadonlyMap<string, string>): void {
  for (const [name, text] of values) {
    const definition = CLIENT_METRICS_CONFIGS.get(name);
    if (definition === undefined) {
      throw new BroadsheetError('INVALID_REQUEST', `Unknown client metrics configuration: ${name}`);
    }
    const value = parseConfig(definition, text);
    if (
      name === 'interval.ms' &&
      !((value as number) >= LEAST_INTERVAL_MS && (value as number) <= GREATEST_INTERVAL_MS)
    ) {
      throw new BroadsheetError(
        'INVALID_REQUEST',
        `Invalid value ${text} for interval.ms, it must be between ${LEAST_INTERVAL_MS} and ${GREATEST_INTERVAL_MS} (1 hour)`,
      );
    }
    if (name === 'match') for (const pattern of value as string[]) checkPattern(pattern);
  }
}
