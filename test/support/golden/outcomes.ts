/**
 * The rules for `produce-outcomes.jsonl`: what a produce of a batch vector gets from Apache Kafka, we give too, bytes stored
 * included, or one of the differences below.
 */
import fs from 'node:fs';
import path from 'node:path';
import { validateProduced } from '../../../src/log/batch-validation.ts';
import { errorName, kafkaCodeOf } from '../../../src/protocol/errors.ts';
import { LEADER_EPOCH_AT } from '../../../src/protocol/records/batch.ts';
import { readLines } from './lines.ts';

export interface OutcomeVector {
  /** Of the vectors; the file lies beside this one, or beside it with `.gz` added. */
  readonly file: string;
  readonly name: string;
  readonly outcome: string;
  readonly storedBytes?: number;
  readonly storedHex?: string;
}

/** Where we answer otherwise than Kafka: which vectors, by name. docs/DIFFERENCES.md has the same table. */
export const DIFFERENCES: readonly {
  readonly what: string;
  readonly names: RegExp;
  readonly kafka: string;
  readonly ours: string;
}[] = [
  {
    what: 'a batch length near 2^31',
    names: /^batch-length-2147483647$/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a codec id that none has (5 to 7)',
    names: /^codec-[567]-crc-right$/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a compressed payload that does not decompress',
    names:
      /^(codec-\w+-over-plain-bytes|\w+-payload-(middle-flipped|start-flipped|cut|empty)|(snappy|zstd)-trailing-junk)-crc-right$/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'CORRUPT_MESSAGE',
  },
  {
    what: 'a damaged zstd payload that some decoders unpack to garbage',
    names: /^zstd-payload-middle-flipped-crc-right$/,
    kafka: 'INVALID_RECORD',
    ours: 'CORRUPT_MESSAGE',
  },
  {
    what: 'a record length whose varint has no end',
    names: /^record-length-varint-unending$/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a key, value or header value length below -1',
    names: /^record-(key-length|value-length|header-value)-minus-2$/,
    kafka: 'NONE',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'offset deltas that are not 0, 1, 2 ...',
    names: /^offset-delta-(starts-at-1|repeats|descends|negative)$/,
    kafka: 'NONE',
    ours: 'INVALID_RECORD',
  },
  {
    what: "the delete horizon flag, which is the log cleaner's",
    names: /^delete-horizon-flag-from-producer$/,
    kafka: 'NONE',
    ours: 'INVALID_RECORD',
  },
];

/** The defaults of a topic. */
const RULES = {
  cleanupPolicy: ['delete'],
  maxMessageBytes: 1048588,
  maxDecompressedMessageBytes: 104857600,
  compressionType: 'producer',
  compressionGzipLevel: -1,
  compressionZstdLevel: 3,
  messageTimestampType: 'CreateTime',
  messageTimestampBeforeMaxMs: Number.MAX_SAFE_INTEGER,
  messageTimestampAfterMaxMs: 3600000,
} as const;
const NOW = 1_800_000_000_000;

const sources = new Map<string, ReadonlyMap<string, Buffer>>();

/** The vectors of a file by name. */
function source(file: string): ReadonlyMap<string, Buffer> {
  let found = sources.get(file);
  if (found === undefined) {
    const vectors = readLines(fs.existsSync(file) ? file : `${file}.gz`).map(
      (line) => JSON.parse(line) as { name: string; hex: string },
    );
    found = new Map(vectors.map(({ name, hex }) => [name, Buffer.from(hex, 'hex')]));
    sources.set(file, found);
  }
  return found;
}

/** Throws what is wrong with our answer. */
export function checkOutcome(vector: OutcomeVector, at: string): void {
  const found = source(path.join(path.dirname(at), vector.file)).get(vector.name);
  if (found === undefined) throw new Error(`no vector of this name in ${vector.file}`);
  const bytes = Buffer.from(found);
  let answer = 'NONE';
  let reason = '';
  let stored = 0;
  try {
    stored = validateProduced(bytes, 0, bytes.length, RULES, NOW).sizeInBytes;
  } catch (error) {
    answer = errorName(kafkaCodeOf(error));
    reason = (error as Error).message;
  }
  if (answer !== vector.outcome) {
    const known = DIFFERENCES.some(
      ({ names, kafka, ours }) => names.test(vector.name) && kafka === vector.outcome && ours === answer,
    );
    if (!known) throw new Error(`got ${answer} (${reason}), expected ${vector.outcome}`);
    return;
  }
  if (answer !== 'NONE') return;
  if (vector.storedBytes !== stored)
    throw new Error(`${stored} bytes stored, expected ${vector.storedBytes}`);
  // The log assigns offset 0 of leader epoch 0.
  bytes.writeInt32BE(0, LEADER_EPOCH_AT);
  const hex = bytes.toString('hex', 0, stored);
  if (vector.storedHex !== undefined && vector.storedHex !== hex) {
    throw new Error(`stored ${hex}, expected ${vector.storedHex}`);
  }
}
