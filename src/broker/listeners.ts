/** Listeners: where they listen, what they advertise, and how many connections they take. */
import { type BrokerConfig, type ListenerConfig, parseOverrides } from '../config/broker-config.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { ConnectionId, Peer, Transport } from './transport.ts';

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

interface Listener {
  readonly config: ListenerConfig;
  /** Undefined: the local address that the client reached. */
  readonly advertised: Endpoint | undefined;
  /** The transport's number for it. */
  readonly id: number;
  readonly port: number;
}

/** An IPv4 address that came in through an IPv6 socket, in its own form. */
function plainAddress(address: string): string {
  return /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(address) ? address.slice(7) : address;
}

/** As people write it. */
export function addressAndPort(address: string, port: number): string {
  const plain = plainAddress(address);
  return plain.includes(':') ? `[${plain}]:${port}` : `${plain}:${port}`;
}

const ANY_ADDRESS = new Set(['', '0.0.0.0', '::']);

export class Listeners {
  readonly #transport: Transport;
  readonly #log: Logger;
  readonly #listeners = new Map<number, Listener>();
  #maxConnections = Number.POSITIVE_INFINITY;
  #maxPerIp = Number.POSITIVE_INFINITY;
  #overrides: ReadonlyMap<string, number> = new Map();
  readonly #perIp = new Map<string, number>();
  readonly #admitted = new Map<ConnectionId, string>();
  #accepting = true;

  constructor(config: BrokerConfig, transport: Transport, log: Logger) {
    this.#transport = transport;
    this.#log = log;
    this.#readLimits(config);
    config.onChange((changed) => {
      if (![...changed].some((name) => name.startsWith('max.connections'))) return;
      this.#readLimits(config);
      this.#throttle();
    });
  }

  /** Throws INVALID_CONFIG. */
  #readLimits(config: BrokerConfig): void {
    const overrides = parseOverrides(config.string('max.connections.per.ip.overrides'));
    this.#maxConnections = config.number('max.connections');
    this.#maxPerIp = config.number('max.connections.per.ip');
    this.#overrides = overrides;
  }

  /** Binds every listener of the configuration. Throws ADDRESS_IN_USE, IO. */
  async open(config: BrokerConfig): Promise<void> {
    const advertised = new Map(config.advertisedListeners.map((l) => [l.name, l]));
    for (const listener of config.listeners) {
      const bound = await this.#bind(listener);
      const told = advertised.get(listener.name);
      this.#listeners.set(bound.listener, {
        config: listener,
        advertised:
          told === undefined || told.host === ''
            ? undefined
            : { host: told.host, port: told.port === 0 ? bound.port : told.port },
        id: bound.listener,
        port: bound.port,
      });
    }
  }

  async #bind({ name, host, port }: ListenerConfig): Promise<{ listener: number; port: number }> {
    try {
      return await this.#transport.listen(host, port);
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code !== 'ADDRESS_IN_USE') throw error;
      const where = host === '' ? 'every address' : host;
      throw new BroadsheetError(
        'ADDRESS_IN_USE',
        `listener ${name} (${where}, port ${port}): another process listens there already`,
        error.errno,
        { cause: error },
      );
    }
  }

  /** What a client of this connection is told to connect to. */
  advertisedTo(peer: Peer): Endpoint {
    const listener = this.#listeners.get(peer.listener);
    return (
      listener?.advertised ?? {
        host: plainAddress(peer.localAddress),
        port: listener?.port ?? peer.localPort,
      }
    );
  }

  name(listener: number): string {
    return this.#listeners.get(listener)?.config.name ?? String(listener);
  }

  /** Where each listener can be reached from this machine. */
  get endpoints(): { name: string; host: string; port: number }[] {
    return [...this.#listeners.values()].map(({ config, port }) => ({
      name: config.name,
      host: ANY_ADDRESS.has(config.host) ? '127.0.0.1' : config.host,
      port,
    }));
  }

  /** Counts a new connection. Returns false when its address has too many: the caller closes it. */
  admit(connection: ConnectionId, peer: Peer): boolean {
    const address = plainAddress(peer.remoteAddress);
    const count = this.#perIp.get(address) ?? 0;
    const limit = this.#overrides.get(address) ?? this.#maxPerIp;
    if (count >= limit) {
      this.#log.warn(
        { peer: addressAndPort(peer.remoteAddress, peer.remotePort), limit },
        `closing the connection of ${addressAndPort(peer.remoteAddress, peer.remotePort)}: ` +
          `its address has ${count} already (max.connections.per.ip ${limit})`,
      );
      return false;
    }
    this.#perIp.set(address, count + 1);
    this.#admitted.set(connection, address);
    this.#throttle();
    return true;
  }

  release(connection: ConnectionId): void {
    const address = this.#admitted.get(connection);
    if (address === undefined) return;
    this.#admitted.delete(connection);
    const left = (this.#perIp.get(address) ?? 1) - 1;
    if (left === 0) this.#perIp.delete(address);
    else this.#perIp.set(address, left);
    this.#throttle();
  }

  /** As in Kafka, connections past max.connections wait to be accepted. */
  #throttle(): void {
    const accepting = this.#admitted.size < this.#maxConnections;
    if (accepting === this.#accepting) return;
    this.#accepting = accepting;
    if (!accepting) {
      this.#log.warn(
        { connections: this.#admitted.size },
        `no more connections are accepted: max.connections is ${this.#maxConnections}`,
      );
    }
    for (const id of this.#listeners.keys()) this.#transport.setAccepting(id, accepting);
  }

  close(): void {
    for (const id of this.#listeners.keys()) this.#transport.closeListener(id);
  }
}
