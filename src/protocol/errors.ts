/** Kafka's error codes, and the one map from the product's errors to them. */
import { BroadsheetError, type ErrorCode } from '../runtime/errors.ts';
import { KafkaError } from './generated/error-codes.ts';

export { KafkaError, RETRIABLE } from './generated/error-codes.ts';

export type KafkaErrorName = keyof typeof KafkaError;

const NAMES = new Map<number, string>(Object.entries(KafkaError).map(([name, code]) => [code, name]));

/** The name of a code, `UNKNOWN_CODE_n` for one that Kafka 4.4 does not have. */
export function errorName(code: number): string {
  return NAMES.get(code) ?? `UNKNOWN_CODE_${code}`;
}

const CODES: Partial<Record<ErrorCode, number>> = {
  IO: KafkaError.KAFKA_STORAGE_ERROR,
  OFFLINE: KafkaError.KAFKA_STORAGE_ERROR,
  NO_SPACE: KafkaError.KAFKA_STORAGE_ERROR,
  BATCH_CORRUPT: KafkaError.CORRUPT_MESSAGE,
  BATCH_INVALID: KafkaError.INVALID_RECORD,
  BATCH_TOO_LARGE: KafkaError.MESSAGE_TOO_LARGE,
  OFFSET_OUT_OF_RANGE: KafkaError.OFFSET_OUT_OF_RANGE,
  TRANSACTION_REFUSED: KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
  TIMESTAMP_INVALID: KafkaError.INVALID_TIMESTAMP,
  MALFORMED: KafkaError.INVALID_REQUEST,
  INVALID_CONFIG: KafkaError.INVALID_CONFIG,
  INVALID_REGULAR_EXPRESSION: KafkaError.INVALID_REGULAR_EXPRESSION,
  INVALID_TOPIC: KafkaError.INVALID_TOPIC_EXCEPTION,
  INVALID_REQUEST: KafkaError.INVALID_REQUEST,
};

/** The Kafka code that answers a request which failed with this error. */
export function kafkaCodeOf(error: unknown): number {
  if (!(error instanceof BroadsheetError)) return KafkaError.UNKNOWN_SERVER_ERROR;
  return CODES[error.code] ?? KafkaError.UNKNOWN_SERVER_ERROR;
}
