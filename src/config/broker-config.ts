/**
 * The broker's configuration as a live view: what server.properties, `--set` and createBroker give, checked and typed, and over
 * it the values that were set while a broker ran. Whoever asks gets the value now in force; whoever keeps one subscribes.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { BROKER_CONFIGS, type ConfigValue, parseConfig } from './definitions.ts';
import { keysWithoutEffect } from './effect.ts';
import { suggestion } from './nearest.ts';

export interface ListenerConfig {
  /** Upper case, as in `PLAINTEXT://host:port`. */
  readonly name: string;
  /** Empty: every address. */
  readonly host: string;
  readonly port: number;
}

/** `NAME://host:port,...`; IPv6 addresses in brackets. Throws INVALID_CONFIG. */
export function parseListeners(key: string, entries: readonly string[]): ListenerConfig[] {
  const names = new Set<string>();
  return entries.map((entry) => {
    const match = /^([A-Za-z0-9_]+):\/\/(?:\[([^\]]*)\]|([^:/]*)):(\d{1,5})$/.exec(entry.trim());
    const port = Number(match?.[4] ?? -1);
    if (!match || port < 0 || port > 65535) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `Invalid value ${entry} for configuration ${key}: expected NAME://host:port`,
      );
    }
    const name = match[1]!.toUpperCase();
    if (names.has(name)) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `Invalid value for configuration ${key}: listener name ${name} appears twice`,
      );
    }
    names.add(name);
    return { name, host: match[2] ?? match[3] ?? '', port };
  });
}

/** `address:count,...` of max.connections.per.ip.overrides. Throws INVALID_CONFIG. */
export function parseOverrides(text: string): Map<string, number> {
  const overrides = new Map<string, number>();
  for (const entry of text.split(',')) {
    if (entry.trim() === '') continue;
    const at = entry.lastIndexOf(':');
    const limit = Number(entry.slice(at + 1));
    if (at <= 0 || !Number.isInteger(limit) || limit < 0) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `Invalid value ${entry} for configuration max.connections.per.ip.overrides: expected address:count`,
      );
    }
    overrides.set(entry.slice(0, at).trim(), limit);
  }
  return overrides;
}

/** Told which keys have another value now. */
export type ConfigListener = (changed: ReadonlySet<string>) => void;

const NOTHING: ReadonlyMap<string, string> = new Map();

export class BrokerConfig {
  readonly #texts: ReadonlyMap<string, string>;
  #dynamicDefaults = NOTHING;
  #dynamicOwn = NOTHING;
  readonly #parsed = new Map<string, ConfigValue>();
  readonly #listeners = new Set<ConfigListener>();
  /** What is worth a line in the log: keys that nothing knows, and in one line those that change nothing. */
  readonly warnings: readonly string[];

  /** Throws INVALID_CONFIG at the first value out of bounds. */
  constructor(texts: ReadonlyMap<string, string>) {
    this.#texts = new Map(texts);
    const warnings: string[] = [];
    for (const [name, text] of texts) {
      const definition = BROKER_CONFIGS.get(name);
      if (definition !== undefined) {
        this.#parsed.set(name, parseConfig(definition, text));
        continue;
      }
      // Keys under a listener's name belong to that listener.
      if (name.startsWith('listener.name.')) continue;
      warnings.push(`unknown configuration ${name}${suggestion(name)}`);
    }
    const idle = keysWithoutEffect(texts);
    if (idle.length > 0) warnings.push(`these configurations have no effect here: ${idle.join(', ')}`);
    this.warnings = warnings;
    this.#checkNode();
    this.#checkListeners();
  }

  #checkNode(): void {
    const roles = this.list('process.roles');
    if (roles.length > 0 && !roles.includes('broker')) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `process.roles is ${roles.join(',')}: this node is always a broker and its own controller`,
      );
    }
    const [node, broker] = ['node.id', 'broker.id'].map((name) => this.textIfSet(name)?.trim());
    if (node !== undefined && broker !== undefined && node !== broker) {
      throw new BroadsheetError('INVALID_CONFIG', `node.id is ${node} and broker.id is ${broker}`);
    }
  }

  /** The id that was asked for, or undefined: that of the directory, 1 in a new one. */
  get nodeId(): number | undefined {
    const name = this.textIfSet('node.id') === undefined ? 'broker.id' : 'node.id';
    const id = this.#value(name) as number | undefined;
    return id === undefined || id < 0 ? undefined : id;
  }

  #checkListeners(): void {
    const protocols = new Map(
      this.string('listener.security.protocol.map')
        .split(',')
        .map((pair) => {
          const at = pair.indexOf(':');
          return [
            pair.slice(0, at).trim().toUpperCase(),
            pair
              .slice(at + 1)
              .trim()
              .toUpperCase(),
          ] as const;
        }),
    );
    for (const { name } of this.listeners) {
      const protocol = protocols.get(name) ?? name;
      if (protocol !== 'PLAINTEXT') {
        throw new BroadsheetError(
          'INVALID_CONFIG',
          `listeners: ${name} uses ${protocol}; this version serves PLAINTEXT listeners only`,
        );
      }
    }
    const known = new Set(this.listeners.map((l) => l.name));
    for (const { name } of this.advertisedListeners) {
      if (!known.has(name)) {
        throw new BroadsheetError(
          'INVALID_CONFIG',
          `advertised.listeners: ${name} is no listener of this broker`,
        );
      }
    }
  }

  /** The text in force for a key, or undefined when it stands at its default. */
  textIfSet(name: string): string | undefined {
    return this.#dynamicOwn.get(name) ?? this.#dynamicDefaults.get(name) ?? this.#texts.get(name);
  }

  /** What was given at the start. */
  get staticTexts(): ReadonlyMap<string, string> {
    return this.#texts;
  }

  /** Values that were set for all brokers of the cluster, and those of this one, which win. */
  get dynamicTexts(): {
    readonly defaults: ReadonlyMap<string, string>;
    readonly own: ReadonlyMap<string, string>;
  } {
    return { defaults: this.#dynamicDefaults, own: this.#dynamicOwn };
  }

  /** Puts other dynamic values in force, all of them checked before, and tells the listeners. */
  setDynamic(defaults: ReadonlyMap<string, string>, own: ReadonlyMap<string, string>): void {
    const names = new Set([
      ...this.#dynamicDefaults.keys(),
      ...this.#dynamicOwn.keys(),
      ...defaults.keys(),
      ...own.keys(),
    ]);
    const before = new Map([...names].map((name) => [name, this.textIfSet(name)]));
    this.#dynamicDefaults = new Map(defaults);
    this.#dynamicOwn = new Map(own);
    const changed = new Set([...names].filter((name) => this.textIfSet(name) !== before.get(name)));
    if (changed.size === 0) return;
    for (const name of changed) this.#parsed.delete(name);
    for (const listener of this.#listeners) listener(changed);
  }

  /** Calls `listener` after every change of dynamic values, until the function that it returns is called. */
  onChange(listener: ConfigListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #value(name: string): ConfigValue | undefined {
    const known = this.#parsed.get(name);
    if (known !== undefined) return known;
    const definition = BROKER_CONFIGS.get(name);
    if (definition === undefined) throw new Error(`no such configuration: ${name}`);
    const text = this.textIfSet(name) ?? definition.default;
    if (text === null) return undefined;
    const value = parseConfig(definition, text);
    this.#parsed.set(name, value);
    return value;
  }

  number(name: string): number {
    return this.#value(name) as number;
  }

  boolean(name: string): boolean {
    return this.#value(name) as boolean;
  }

  string(name: string): string {
    return this.#value(name) as string;
  }

  list(name: string): readonly string[] {
    return (this.#value(name) as string[] | undefined) ?? [];
  }

  /** Listeners that clients connect to: a Kafka's server.properties names its controller listener among them, which
   * this broker has no use for. */
  get listeners(): ListenerConfig[] {
    const controllers = new Set(this.list('controller.listener.names').map((name) => name.toUpperCase()));
    return parseListeners('listeners', this.list('listeners')).filter((l) => !controllers.has(l.name));
  }

  get advertisedListeners(): ListenerConfig[] {
    const controllers = new Set(this.list('controller.listener.names').map((name) => name.toUpperCase()));
    return parseListeners('advertised.listeners', this.list('advertised.listeners')).filter(
      (l) => !controllers.has(l.name),
    );
  }

  /** The one data directory. Throws INVALID_CONFIG when several are named. */
  get dataDir(): string {
    const name = this.#texts.has('log.dirs') || !this.#texts.has('log.dir') ? 'log.dirs' : 'log.dir';
    const dirs = this.list(name);
    if (dirs.length !== 1 || dirs[0] === '') {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `${name} names ${dirs.length} directories; this broker keeps its data in exactly one`,
      );
    }
    const metadataDir = this.textIfSet('metadata.log.dir')?.trim();
    if (metadataDir !== undefined && metadataDir !== dirs[0]) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `metadata.log.dir is ${metadataDir} and ${name} is ${dirs[0]}: this broker keeps both in one directory`,
      );
    }
    return dirs[0]!;
  }
}
