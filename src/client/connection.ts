/** One connection to a broker: requests go out as they are made, responses come back by correlation id. */
import net from 'node:net';
import { KafkaError } from '../protocol/errors.ts';
import { API_FACTS } from '../protocol/generated/api-keys.ts';
import { writeRequestHeader } from '../protocol/generated/headers.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { APIS, type Api } from './apis.ts';

export interface ConnectionOptions {
  readonly host: string;
  readonly port: number;
  readonly clientId?: string;
  /** How long to wait for the connection, and for each response, ms. Default 30 000. */
  readonly timeoutMs?: number;
}

export interface RequestOptions {
  /** Default: the highest that both sides know, once negotiated; else the highest known here. */
  readonly version?: number;
  readonly timeoutMs?: number;
}

interface Waiting {
  readonly resolve: (body: Reader) => void;
  readonly reject: (error: Error) => void;
  readonly responseHeaderVersion: number;
  readonly timer: NodeJS.Timeout;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/** No response is larger, bytes; what claims to be is taken for something else than Kafka. */
const MAX_RESPONSE_BYTES = 512 * 1024 * 1024;
const MAX_CORRELATION_ID = 2 ** 31 - 1;
/** Since this version an ApiVersions request names the client. */
const NAMED_CLIENT_VERSION = 3;

export class Connection {
  readonly #socket: net.Socket;
  readonly #peer: string;
  readonly #clientId: string;
  readonly #timeoutMs: number;
  readonly #waiting = new Map<number, Waiting>();
  #versions: ReadonlyMap<number, readonly [number, number]> | undefined;
  #correlationId = 0;
  #chunks: Buffer[] = [];
  #received = 0;
  #closed: BroadsheetError | undefined;

  private constructor(socket: net.Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#peer = `${options.host}:${options.port}`;
    this.#clientId = options.clientId ?? 'broadsheet';
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    socket.setNoDelay(true);
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fail(this.#broken(error.message, error)));
    socket.on('close', () => this.#fail(this.#broken('the broker closed the connection')));
  }

  /** Connects; speaks no Kafka yet. Throws IO, TIMEOUT. */
  static connect(options: ConnectionOptions): Promise<Connection> {
    const peer = `${options.host}:${options.port}`;
    return new Promise((resolve, reject) => {
      const socket = net.connect({ host: options.host, port: options.port });
      const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      const timer = setTimeout(() => {
        socket.destroy();
        reject(new BroadsheetError('TIMEOUT', `no connection to ${peer} within ${timeoutMs} ms`));
      }, timeoutMs);
      const failed = (error: Error) => {
        clearTimeout(timer);
        reject(new BroadsheetError('IO', `no connection to ${peer}: ${reason(error)}`, 0, { cause: error }));
      };
      socket.once('error', failed);
      socket.once('connect', () => {
        clearTimeout(timer);
        socket.removeListener('error', failed);
        resolve(new Connection(socket, options));
      });
    });
  }

  /** Undefined until negotiate(): the lowest and highest version of each API that the broker serves, by key. */
  get versions(): ReadonlyMap<number, readonly [number, number]> | undefined {
    return this.#versions;
  }

  get closed(): boolean {
    return this.#closed !== undefined;
  }

  /** Asks the broker for its versions (ApiVersions, down to version 0 where it must be). */
  async negotiate(): Promise<void> {
    const body = { clientSoftwareName: 'broadsheet', clientSoftwareVersion: '0' };
    let response = await this.request(APIS.apiVersions, body, { version: NAMED_CLIENT_VERSION });
    if (response.errorCode === KafkaError.UNSUPPORTED_VERSION) {
      response = await this.request(APIS.apiVersions, {}, { version: 0 });
    }
    this.#versions = new Map(
      response.apiKeys.map(({ apiKey, minVersion, maxVersion }) => [
        apiKey,
        [minVersion, maxVersion] as const,
      ]),
    );
  }

  /** The version that request() takes. Throws UNSUPPORTED if the two sides have none in common. */
  versionOf(key: number): number {
    const facts = API_FACTS[key]!;
    if (this.#versions === undefined) return facts.maxVersion;
    const [least, most] = this.#versions.get(key) ?? [0, -1];
    const version = Math.min(most, facts.maxVersion);
    if (version < Math.max(least, facts.minVersion)) {
      throw new BroadsheetError('UNSUPPORTED', `${this.#peer} serves no version of ${facts.name} known here`);
    }
    return version;
  }

  /** Sends a request and reads its response. Throws TIMEOUT, IO, CLOSED, MALFORMED, UNSUPPORTED; error codes in the
   * response are the caller's to judge. */
  async request<Request, Response>(
    call: Api<Request, Response>,
    body: Request,
    options: RequestOptions = {},
  ): Promise<Response> {
    const version = options.version ?? this.versionOf(call.key);
    const frame = this.#encode(call, body, version);
    return call.read(await this.#exchange(frame, call.key, version, options.timeoutMs), version);
  }

  /** Sends a request that has no response: a Produce with acks 0. Resolves once the operating system has taken it. */
  async send<Request>(
    call: Api<Request, unknown>,
    body: Request,
    options: RequestOptions = {},
  ): Promise<void> {
    if (this.#closed !== undefined) throw this.#closed;
    const frame = this.#encode(call, body, options.version ?? this.versionOf(call.key));
    await new Promise<void>((resolve, reject) => {
      this.#socket.write(frame, (error) =>
        error == null ? resolve() : reject(this.#broken(error.message, error)),
      );
    });
  }

  /** Closes at once; what waits for a response fails with CLOSED. */
  close(): void {
    this.#fail(new BroadsheetError('CLOSED', `the connection to ${this.#peer} was closed here`));
  }

  #encode<Request>(call: Api<Request, unknown>, body: Request, version: number): Buffer {
    this.#correlationId = this.#correlationId === MAX_CORRELATION_ID ? 1 : this.#correlationId + 1;
    const facts = API_FACTS[call.key]!;
    const w = new Writer(1024);
    w.int32(0);
    writeRequestHeader(w, facts.requestHeaderVersion(version), {
      requestApiKey: call.key,
      requestApiVersion: version,
      correlationId: this.#correlationId,
      clientId: this.#clientId,
    });
    call.write(w, version, body);
    w.patchInt32(0, w.position - 4);
    return w.bytes();
  }

  #exchange(frame: Buffer, key: number, version: number, timeoutMs = this.#timeoutMs): Promise<Reader> {
    const id = this.#correlationId;
    const facts = API_FACTS[key]!;
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) {
        reject(this.#closed);
        return;
      }
      const timer = setTimeout(() => {
        this.#fail(new BroadsheetError('TIMEOUT', `no answer to ${facts.name} within ${timeoutMs} ms`));
      }, timeoutMs);
      const responseHeaderVersion = facts.responseHeaderVersion(version);
      this.#waiting.set(id, { resolve, reject, responseHeaderVersion, timer });
      this.#socket.write(frame);
    });
  }

  #onData(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    while (this.#received >= 4) {
      if (this.#chunks[0]!.length < 4) this.#chunks = [Buffer.concat(this.#chunks)];
      const length = this.#chunks[0]!.readInt32BE(0);
      if (length < 4 || length > MAX_RESPONSE_BYTES) {
        this.#fail(new BroadsheetError('MALFORMED', `${this.#peer} sent a length of ${length}`));
        return;
      }
      if (this.#received < 4 + length) return;
      const all = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
      const rest = all.subarray(4 + length);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#received = rest.length;
      this.#onResponse(all.subarray(4, 4 + length));
    }
  }

  #onResponse(frame: Buffer): void {
    const id = frame.readInt32BE(0);
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) {
      this.#fail(
        new BroadsheetError('MALFORMED', `${this.#peer} answered request ${id}, which waits for nothing`),
      );
      return;
    }
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    const body = new Reader(frame, 4);
    try {
      if (waiting.responseHeaderVersion >= 1) body.skipTags();
      waiting.resolve(body);
    } catch (error) {
      waiting.reject(error as Error);
    }
  }

  #broken(what: string, cause?: Error): BroadsheetError {
    return new BroadsheetError('IO', `connection to ${this.#peer}: ${what}`, 0, { cause });
  }

  #fail(error: BroadsheetError): void {
    if (this.#closed !== undefined) return;
    this.#closed = error;
    this.#socket.destroy();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(error);
    }
  }
}

/** Several addresses of one name fail with an error that has others and no text of its own. */
function reason(error: Error & { errors?: readonly Error[] }): string {
  return error.message !== '' ? error.message : (error.errors ?? []).map((each) => each.message).join(', ');
}
