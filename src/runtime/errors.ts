/** Codes of BroadsheetError: those of native/status.h, and those that only TypeScript raises. Stable: users match on
 * them. */
export type ErrorCode =
  | 'IO'
  | 'NO_SPACE'
  | 'NOT_FOUND'
  | 'LOCKED'
  | 'CLOSED'
  | 'INVALID_ARGUMENT'
  | 'CORRUPT'
  | 'OFFSET_OUT_OF_RANGE'
  | 'COLD'
  | 'BATCH_CORRUPT'
  | 'BATCH_INVALID'
  | 'BATCH_TOO_LARGE'
  | 'LIMIT'
  | 'ADDRESS_IN_USE'
  | 'OFFLINE'
  | 'TIMESTAMP_INVALID'
  /** Transactional data where none may be. */
  | 'TRANSACTION_REFUSED'
  /** Bytes from a peer that do not parse as what they claim to be. */
  | 'MALFORMED'
  | 'INVALID_CONFIG'
  /** A subscription pattern that is not RE2 syntax. */
  | 'INVALID_REGULAR_EXPRESSION'
  | 'INVALID_TOPIC'
  /** A request that can never be served as it is. */
  | 'INVALID_REQUEST'
  /** The client: no answer in time, none of an API's versions in common, an error code in a response. */
  | 'TIMEOUT'
  | 'UNSUPPORTED'
  | 'BROKER_REFUSED'
  | 'ADDON_UNAVAILABLE';

/** The one error class of the product. */
export class BroadsheetError extends Error {
  readonly code: ErrorCode;
  /** The operating system's error number, 0 where none was involved. */
  readonly errno: number;

  constructor(code: ErrorCode, message: string, errno = 0, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BroadsheetError';
    this.code = code;
    this.errno = errno;
  }
}
