/** Listening sockets of the JS transport: one listener is one port, on every address of its host. */
import { promises as dns } from 'node:dns';
import { closeSync, openSync } from 'node:fs';
import { type AddressInfo, createServer, isIP, type Server, type Socket } from 'node:net';
import { constants, devNull } from 'node:os';
import { BroadsheetError, type ErrorCode } from '../runtime/errors.ts';
import { namingLimit } from '../runtime/limits.ts';

/** Cut by the system to what it allows. */
const BACKLOG = 4096;
/** Connections that wait here while accepting is off; more are closed. Node cannot leave them with the kernel. */
const MAX_WAITING = 1024;
/** How often port 0 is tried again when the port found on the first address is taken on the second. */
const ATTEMPTS = 8;

const CODES: Readonly<Record<string, ErrorCode>> = {
  EADDRINUSE: 'ADDRESS_IN_USE',
  EMFILE: 'LIMIT',
  ENFILE: 'LIMIT',
  ENOMEM: 'LIMIT',
};

function failure(error: NodeJS.ErrnoException, where: string): BroadsheetError {
  const errno = constants.errno[error.code as keyof typeof constants.errno] ?? 0;
  const code = error.syscall === 'getaddrinfo' ? 'NOT_FOUND' : (CODES[error.code ?? ''] ?? 'IO');
  const text = namingLimit(`listen on ${where}: ${error.message}`, errno);
  return new BroadsheetError(code, text, errno, { cause: error });
}

function isAbsentHere({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT';
}

export interface ListenerHost {
  /** A connection waits in take(), or accepting was resumed. */
  onConnection(): void;
  /** No descriptor is left: what comes now is turned away by the system. */
  onStarved(error: BroadsheetError): void;
}

export class JsListener {
  readonly #host: ListenerHost;
  readonly #servers: Server[] = [];
  readonly #waiting = new Set<Socket>();
  #accepting = true;
  #starved = false;

  constructor(host: ListenerHost) {
    this.#host = host;
  }

  /** Resolves with the port. Rejects with ADDRESS_IN_USE, NOT_FOUND (no such host), LIMIT, IO. */
  async open(host: string, port: number): Promise<number> {
    const everywhere = host === '' || host === '*' || host === '::';
    const where = `${everywhere ? 'every address' : host} port ${port}`;
    for (let attempt = 1; ; attempt++) {
      try {
        // Node takes no host for :: of both families, or 0.0.0.0 where there is no IPv6.
        if (everywhere) return await this.#bind(undefined, port);
        return await this.#bindAll(isIP(host) ? [host] : await addressesOf(host), port);
      } catch (error) {
        this.close();
        const { code } = error as NodeJS.ErrnoException;
        if (port !== 0 || code !== 'EADDRINUSE' || attempt === ATTEMPTS)
          throw failure(error as NodeJS.ErrnoException, where);
      }
    }
  }

  async #bindAll(addresses: readonly string[], port: number): Promise<number> {
    let absent: unknown;
    let bound: number | undefined;
    for (const address of addresses) {
      try {
        bound = await this.#bind(address, bound ?? port);
      } catch (error) {
        // A name may have addresses that this machine does not have (::1 without IPv6, say).
        if (!isAbsentHere(error as NodeJS.ErrnoException)) throw error;
        absent = error;
      }
    }
    if (bound === undefined) throw absent;
    return bound;
  }

  #bind(host: string | undefined, port: number): Promise<number> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) =>
      this.#arrived(socket),
    );
    this.#servers.push(server);
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      const ipv6Only = host !== undefined && isIP(host) === 6;
      server.listen({ host, port, backlog: BACKLOG, exclusive: true, ipv6Only }, () => {
        server.off('error', reject);
        server.on('error', (error) => this.#starve(error));
        resolve((server.address() as AddressInfo).port);
      });
    });
  }

  #arrived(socket: Socket): void {
    if (this.#waiting.size >= MAX_WAITING) {
      socket.destroy();
      return;
    }
    socket.on('error', () => {});
    socket.once('close', () => this.#waiting.delete(socket));
    this.#waiting.add(socket);
    this.#look();
    this.#host.onConnection();
  }

  /** libuv turns connections away without a word when it has no descriptor for them. */
  #look(): void {
    try {
      closeSync(openSync(devNull, 'r'));
      this.#starved = false;
    } catch (error) {
      this.#starve(error as NodeJS.ErrnoException);
    }
  }

  #starve(error: NodeJS.ErrnoException): void {
    if (this.#starved) return;
    this.#starved = true;
    const errno = constants.errno[error.code as keyof typeof constants.errno] ?? 0;
    this.#host.onStarved(
      new BroadsheetError(
        'LIMIT',
        namingLimit('no descriptor is left for another connection: it is turned away', errno),
        errno,
        { cause: error },
      ),
    );
  }

  /** The connection that waited longest, unless accepting is off. It is paused. */
  take(): Socket | undefined {
    if (!this.#accepting) return undefined;
    const [socket] = this.#waiting;
    if (socket !== undefined) this.#waiting.delete(socket);
    return socket;
  }

  setAccepting(accepting: boolean): void {
    this.#accepting = accepting;
    if (accepting && this.#waiting.size > 0) this.#host.onConnection();
  }

  close(): void {
    for (const server of this.#servers.splice(0)) if (server.listening) server.close();
    for (const socket of this.#waiting) socket.destroy();
    this.#waiting.clear();
  }
}

async function addressesOf(host: string): Promise<string[]> {
  const found = await dns.lookup(host, { all: true });
  return [...new Set(found.map(({ address }) => address))];
}
