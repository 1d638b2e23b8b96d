import { NameCache } from './name-cache.ts';
import { malformed, type Reader } from './reader.ts';
import type { Writer } from './writer.ts';

export interface ApiFactsFields {
  readonly key: number;
  readonly name: string;
  readonly minVersion: number;
  readonly maxVersion: number;
  readonly unstableVersion: number | null;
  readonly advertised: readonly [number, number] | null;
  readonly advertisedByController: readonly [number, number] | null;
  readonly requestFlexibleFrom: number;
  readonly responseFlexibleFrom: number;
  readonly requestHeader2From: number;
  readonly responseHeader1From: number;
  readonly clusterAction: boolean;
  readonly forwardable: boolean;
}

/** What Kafka 4.4 says of one API. One that it removed has minVersion 0 and maxVersion -1. */
export class ApiFacts {
  readonly key: number;
  readonly name: string;
  readonly minVersion: number;
  readonly maxVersion: number;
  /** A version above maxVersion that is never advertised. */
  readonly unstableVersion: number | null;
  /** [lowest, highest] version that a Kafka broker answers ApiVersions with; null if it doesn't list the API. */
  readonly advertised: readonly [number, number] | null;
  readonly advertisedByController: readonly [number, number] | null;
  /** First version with compact types and tagged fields; Infinity if none. */
  readonly requestFlexibleFrom: number;
  readonly responseFlexibleFrom: number;
  /** Sent by brokers and controllers to each other. */
  readonly clusterAction: boolean;
  /** A Kafka broker hands it on to its controller. */
  readonly forwardable: boolean;
  readonly #requestHeader2From: number;
  readonly #responseHeader1From: number;

  constructor(fields: ApiFactsFields) {
    this.key = fields.key;
    this.name = fields.name;
    this.minVersion = fields.minVersion;
    this.maxVersion = fields.maxVersion;
    this.unstableVersion = fields.unstableVersion;
    this.advertised = fields.advertised;
    this.advertisedByController = fields.advertisedByController;
    this.requestFlexibleFrom = fields.requestFlexibleFrom;
    this.responseFlexibleFrom = fields.responseFlexibleFrom;
    this.clusterAction = fields.clusterAction;
    this.forwardable = fields.forwardable;
    this.#requestHeader2From = fields.requestHeader2From;
    this.#responseHeader1From = fields.responseHeader1From;
  }

  /** Version of the header in front of a request of this version: 1 or 2. */
  requestHeaderVersion(version: number): number {
    return version >= this.#requestHeader2From ? 2 : 1;
  }

  /** Version of the header in front of a response of this version: 0 or 1. ApiVersions has 0 in every version. */
  responseHeaderVersion(version: number): number {
    return version >= this.#responseHeader1From ? 1 : 0;
  }
}

/** The start of every request: what must be known before the rest of the header can be read. */
export interface RequestStart {
  apiKey: number;
  apiVersion: number;
  correlationId: number;
}

/** Reads the 8 bytes that every request begins with. Throws MALFORMED. */
export function readRequestStart(r: Reader, start: RequestStart): void {
  start.apiKey = r.int16();
  start.apiVersion = r.int16();
  start.correlationId = r.int32();
}

/** A client says its id with each request. */
const clientIds = new NameCache();

/** Reads what follows: the client id, and tagged fields in header version 2. Throws MALFORMED. */
export function readClientId(r: Reader, headerVersion: number): string | null {
  const clientId = clientIds.nullableName(r);
  if (headerVersion >= 2) r.skipTags();
  return clientId;
}

/** Begins a response: room for its length, then its header. Pass what it returns to finishResponse(). */
export function beginResponse(w: Writer, correlationId: number, headerVersion: number): number {
  const at = w.position;
  w.int32(0);
  w.int32(correlationId);
  if (headerVersion >= 1) w.int8(0);
  return at;
}

/** Writes the length of the response that began at `at`; `more` bytes of it follow from elsewhere. */
export function finishResponse(w: Writer, at: number, more = 0): void {
  w.patchInt32(at, w.position - at - 4 + more);
}

/** A whole request was read: whatever is left over makes it malformed. */
export function expectEnd(r: Reader): void {
  if (r.remaining > 0) throw malformed(`${r.remaining} bytes after the end of a message`);
}
