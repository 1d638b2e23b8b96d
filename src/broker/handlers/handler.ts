/** What a row of the handlers' table is. */
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';

/** Smallest and largest version, inclusive. */
export type VersionRange = readonly [min: number, max: number];

/** What an authoriser will ask before the request is served: Kafka's operation on Kafka's resource type. */
export interface Authorisation {
  readonly operation:
    | 'NONE'
    | 'READ'
    | 'WRITE'
    | 'CREATE'
    | 'DELETE'
    | 'DESCRIBE'
    | 'IDEMPOTENT_WRITE'
    | 'ALTER'
    | 'DESCRIBE_CONFIGS'
    | 'ALTER_CONFIGS';
  readonly resource: 'NONE' | 'TOPIC' | 'CLUSTER' | 'GROUP' | 'TRANSACTIONAL_ID';
}

export interface HandlerRow {
  readonly key: number;
  readonly name: string;
  /** Versions that are answered; any other closes the connection, as in Kafka. */
  readonly served: VersionRange;
  /** Versions that ApiVersions tells of. */
  readonly advertised: VersionRange;
  /** May begin while an earlier request of its connection that overlaps too waits for its answer. */
  readonly overlaps: boolean;
  readonly authorisation: Authorisation;
  /**
   * Serves one request: sooner or later it calls one of request.reply, replyParts and noReply. Called with the frame in
   * the slab; a handler that goes on after it returned calls request.keep() first. What it throws, or rejects with,
   * fails its own request.
   */
  readonly handle: (request: Request, broker: BrokerContext) => void | Promise<void>;
  /** Writes the answer that says only `code`, for APIs that have a place for it. Without one, a failed request closes
   * its connection. */
  readonly failure?: (writer: Writer, version: number, code: number, message: string) => void;
}
