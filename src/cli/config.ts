/** `broadsheet config`: list, describe, set and delete configs of topics, brokers and groups, and quotas of clients. */
import { type Command, InvalidArgumentError } from 'commander';
import {
  alterConfigs,
  CONFIG_SOURCES,
  type ConfigChange,
  describeConfigs,
  listConfigResources,
  type Resource,
  ResourceType,
} from '../client/admin.ts';
import type { Client } from '../client/client.ts';
import { alterQuotas, describeQuotas, type QuotaEntity } from '../client/quotas.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { note, print, printJson, table } from './output.ts';
import { overTheWire, type SessionOptions, withClient } from './session.ts';

const RESOURCES = {
  topic: ResourceType.TOPIC,
  broker: ResourceType.BROKER,
  'broker-logger': ResourceType.BROKER_LOGGER,
  group: ResourceType.GROUP,
  'client-metrics': ResourceType.CLIENT_METRICS,
} as const;
const ENTITIES = { user: 'user', client: 'client-id', ip: 'ip' } as const;
type Kind = keyof typeof RESOURCES | keyof typeof ENTITIES;
const KINDS = [...Object.keys(RESOURCES), ...Object.keys(ENTITIES)] as Kind[];

interface ConfigOptions extends SessionOptions {
  readonly default?: boolean;
  readonly client?: string;
}

/** Whose configs: a resource, or an entity that has quotas. */
type Target = { readonly resource: Resource } | { readonly entity: readonly QuotaEntity[] };

/** The target, and what stands behind it on the command line. Throws INVALID_ARGUMENT. */
function targetOf(
  kind: Kind,
  rest: readonly string[],
  options: ConfigOptions,
): { readonly target: Target; readonly name: string; readonly rest: readonly string[] } {
  const name = options.default ? null : rest[0];
  if (name === undefined) {
    const hint = kind === 'topic' || kind === 'group' ? '' : ', or --default for all that have no own value';
    throw new BroadsheetError('INVALID_ARGUMENT', `name the ${kind}${hint}`);
  }
  const others = options.default ? rest : rest.slice(1);
  if (options.client !== undefined && kind !== 'user') {
    throw new BroadsheetError('INVALID_ARGUMENT', '--client goes with a user');
  }
  const shown = name ?? '(default)';
  if (kind in ENTITIES) {
    const entity: QuotaEntity[] = [{ entityType: ENTITIES[kind as keyof typeof ENTITIES], entityName: name }];
    if (options.client !== undefined) entity.push({ entityType: 'client-id', entityName: options.client });
    return { target: { entity }, name: shown, rest: others };
  }
  if (name === null && kind !== 'broker') {
    throw new BroadsheetError('INVALID_ARGUMENT', `a ${kind} has no default: name one`);
  }
  const type = RESOURCES[kind as keyof typeof RESOURCES];
  return { target: { resource: { type, name: name ?? '' } }, name: shown, rest: others };
}

async function list(client: Client, options: SessionOptions): Promise<void> {
  const resources = (await listConfigResources(client)).map(({ type, name }) => ({
    type: Object.entries(RESOURCES).find(([, number]) => number === type)?.[0] ?? String(type),
    name,
  }));
  if (options.json) return printJson({ resources });
  await print(
    table(
      ['KIND', 'NAME'],
      resources.map(({ type, name }) => [type, name]),
    ),
  );
}

interface DescribeOptions extends ConfigOptions {
  readonly all?: boolean;
  readonly synonyms?: boolean;
  readonly documentation?: boolean;
}

const SOURCE_DEFAULT = 5;
/** Values of broker loggers are all there is to see. */
const ALWAYS_ALL: ReadonlySet<number> = new Set([ResourceType.BROKER_LOGGER]);

async function describe(client: Client, kind: Kind, args: readonly string[], options: DescribeOptions) {
  const { target, name, rest } = targetOf(kind, args, options);
  if (rest.length > 0) throw new BroadsheetError('INVALID_ARGUMENT', `what is ${rest.join(' ')}?`);
  if ('entity' in target) {
    const quotas = await describeQuotas(client, target.entity);
    const configs = [...quotas].map(([key, value]) => ({ name: key, value: String(value) }));
    if (options.json) return printJson({ type: kind, name, configs });
    if (configs.length === 0) return note(`${kind} ${name} has no quotas of its own`);
    return print(
      table(
        ['NAME', 'VALUE'],
        configs.map((each) => [each.name, each.value]),
      ),
    );
  }
  const { synonyms = false, documentation = false } = options;
  const [found] = await describeConfigs(client, [target.resource], { synonyms, documentation });
  const all = options.all || ALWAYS_ALL.has(target.resource.type);
  const configs = (found?.configs ?? [])
    .filter(({ configSource }) => all || configSource !== SOURCE_DEFAULT)
    .map((each) => ({
      name: each.name,
      value: each.value,
      source: sourceText(each.configSource),
      readOnly: each.readOnly,
      sensitive: each.isSensitive,
      ...(synonyms
        ? {
            synonyms: each.synonyms.map((synonym) => ({
              name: synonym.name,
              value: synonym.value,
              source: sourceText(synonym.source),
            })),
          }
        : {}),
      ...(documentation ? { documentation: each.documentation } : {}),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  if (options.json) return printJson({ type: kind, name, configs });
  if (configs.length === 0) return note(`${kind} ${name} has only defaults: --all shows them`);
  const rows = configs.map((each) => [
    each.name,
    each.sensitive ? '(hidden)' : each.value,
    each.source,
    ...(each.synonyms === undefined
      ? []
      : [each.synonyms.map((one) => `${one.name}=${one.value} (${one.source})`).join(' ') || null]),
    ...(documentation ? [each.documentation ?? null] : []),
  ]);
  const heading = ['NAME', 'VALUE', 'SOURCE'];
  if (synonyms) heading.push('SYNONYMS');
  if (documentation) heading.push('DOCUMENTATION');
  await print(table(heading, rows));
}

function sourceText(source: number): string {
  return CONFIG_SOURCES[source] ?? `source ${source}`;
}

interface ChangeOptions extends ConfigOptions {
  readonly validateOnly?: boolean;
}

async function change(
  client: Client,
  kind: Kind,
  args: readonly string[],
  options: ChangeOptions,
  read: (text: string) => ConfigChange,
): Promise<void> {
  const { target, name, rest } = targetOf(kind, args, options);
  if (rest.length === 0) throw new BroadsheetError('INVALID_ARGUMENT', `which config of ${kind} ${name}?`);
  const changes = rest.map(read);
  const { validateOnly = false } = options;
  if ('entity' in target) {
    const quotas = new Map(changes.map((each) => [each.name, quotaOf(each)]));
    await alterQuotas(client, target.entity, quotas, validateOnly);
  } else await alterConfigs(client, target.resource, changes, validateOnly);
  if (options.json) {
    const configs = changes.map((each) => ({ name: each.name, value: each.value }));
    return printJson({ type: kind, name, configs, changed: !validateOnly });
  }
  await print(`${kind} ${name} ${validateOnly ? 'could be changed' : 'changed'}\n`);
}

function quotaOf({ name, value, operation }: ConfigChange): number | null {
  if (value === null) return null;
  const number = Number(value);
  if (operation !== undefined || value.trim() === '' || Number.isNaN(number)) {
    throw new BroadsheetError('INVALID_ARGUMENT', `quota ${name} is a number: ${name}=1048576`);
  }
  return number;
}

/** `key=value`, `key+=value`, `key-=value`. */
function assignment(text: string): ConfigChange {
  const match = /^([^=+]*[^=+-])([+-]?)=(.*)$/s.exec(text);
  if (match === null) throw new BroadsheetError('INVALID_ARGUMENT', `not key=value: ${text}`);
  const [, name, sign, value] = match as unknown as [string, string, string, string];
  const operation = sign === '' ? undefined : sign === '+' ? 'append' : 'subtract';
  return { name, value, operation };
}

function kindOf(text: string): Kind {
  if (!KINDS.includes(text as Kind)) throw new InvalidArgumentError(`one of ${KINDS.join(', ')}.`);
  return text as Kind;
}

export function define(command: Command): void {
  const add = (name: string, description: string) =>
    overTheWire(command.command(name).description(description));
  const target = (subcommand: Command, what: string) =>
    subcommand
      .argument('<kind>', KINDS.join(', '), kindOf)
      .argument('[name...]', what)
      .option('--default', 'instead of a name: what counts for those that have no own value')
      .option('--client <id>', 'of a user: only as this client');
  add('list', 'what has configs of its own kind: topics, brokers, groups, client metrics').action(
    (options: SessionOptions) => withClient(options, (client) => list(client, options)),
  );
  target(add('describe', 'show configs that differ from their default'), 'its name; of a broker its id')
    .option('-a, --all', 'with defaults')
    .option('--synonyms', 'with where else the value could come from')
    .option('--documentation', 'with what the broker says of each')
    .action((kind: Kind, args: string[], options: DescribeOptions) =>
      withClient(options, (client) => describe(client, kind, args, options)),
    );
  target(
    add('set', 'set configs; key+=value and key-=value change a list'),
    'its name, then key=value, as many as you like',
  )
    .option('--validate-only', 'only say whether it could be changed')
    .addHelpText(
      'after',
      `
For example:
  broadsheet config set topic orders retention.ms=86400000 cleanup.policy+=compact
  broadsheet config set broker --default log.retention.hours=24
  broadsheet config set user alice --client reports consumer_byte_rate=1048576`,
    )
    .action((kind: Kind, args: string[], options: ChangeOptions) =>
      withClient(options, (client) => change(client, kind, args, options, assignment)),
    );
  target(add('delete', 'take configs back to what counts without them'), 'its name, then keys')
    .option('--validate-only', 'only say whether it could be changed')
    .action((kind: Kind, args: string[], options: ChangeOptions) =>
      withClient(options, (client) => change(client, kind, args, options, (name) => ({ name, value: null }))),
    );
}
