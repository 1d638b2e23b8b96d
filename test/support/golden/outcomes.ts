/**
 * The rules for `produce-outcomes.jsonl`: what a produce of a batch vector gets from Apache Kafka, we give too, bytes stored
 * included, or one of the differences below.
 */
import fs from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { BatchInspector } from '../../../src/log/batch-inspector.ts';
import { validateProduced } from '../../../src/log/batch-validation.ts';
import { jsInspector } from '../../../src/log/js-inspector.ts';
import { nativeInspector } from '../../../src/log/native-inspector.ts';
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

/** Where we answer otherwise than Kafka: told by the reason that we give. docs/DIFFERENCES.md has the same table. */
export const DIFFERENCES: readonly {
  readonly what: string;
  /** Of our answer. */
  readonly reason: RegExp;
  readonly kafka: string;
  readonly ours: string;
}[] = [
  {
    what: 'a batch length near 2^31',
    reason: /holds no whole record batch/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a codec id that none has (5 to 7)',
    reason: /compression codec \d is unknown/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a compressed payload that does not decompress',
    reason: /payload does not decompress/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'CORRUPT_MESSAGE',
  },
  {
    what: 'a damaged payload of which some unpacks, to nonsense',
    reason: /payload does not decompress/,
    kafka: 'INVALID_RECORD',
    ours: 'CORRUPT_MESSAGE',
  },
  {
    what: 'a record length whose varint has no end',
    reason: /length is not a whole varint/,
    kafka: 'UNKNOWN_SERVER_ERROR',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'a key, value or header value length below -1',
    reason: /(key|value) length -\d+ is negative/,
    kafka: 'NONE',
    ours: 'INVALID_RECORD',
  },
  {
    what: 'offset deltas that are not 0, 1, 2 ...',
    reason: /offset delta -?\d+, expected/,
    kafka: 'NONE',
    ours: 'INVALID_RECORD',
  },
  {
    what: "the delete horizon flag, which is the log cleaner's",
    reason: /delete horizon flag/,
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
  messageTimestampBeforeMaxMs: 2 ** 63,
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

function judge(found: Uint8Array, inspector: BatchInspector) {
  const bytes = Buffer.from(found);
  let answer = 'NONE';
  let reason = '';
  let stored = 0;
  try {
    stored = validateProduced(bytes, 0, bytes.length, RULES, NOW, inspector).sizeInBytes;
  } catch (error) {
    answer = errorName(kafkaCodeOf(error));
    reason = (error as Error).message;
  }
  return { bytes, answer, reason, stored };
}

/** What a produce of the vector gets from us, and the row of DIFFERENCES that says why if it is not what Kafka gives. */
export function answerTo(vector: OutcomeVector, at: string) {
  const found = source(path.join(path.dirname(at), vector.file)).get(vector.name);
  if (found === undefined) throw new Error(`no vector of this name in ${vector.file}`);
  const { bytes, answer, reason, stored } = judge(found, nativeInspector);
  const other = judge(found, jsInspector);
  if (!isDeepStrictEqual(other, { bytes, answer, reason, stored }))
    throw new Error(`the JS engine says ${other.answer} (${other.reason}), not ${answer} (${reason})`);
  const difference =
    answer === vector.outcome
      ? undefined
      : DIFFERENCES.find(
          (row) => row.kafka === vector.outcome && row.ours === answer && row.reason.test(reason),
        );
  return { bytes, answer, reason, stored, difference };
}

/** Throws what is wrong with our answer. */
export function checkOutcome(vector: OutcomeVector, at: string): void {
  const { bytes, answer, reason, stored, difference } = answerTo(vector, at);
  if (difference !== undefined) return;
  if (answer !== vector.outcome) throw new Error(`got ${answer} (${reason}), expected ${vector.outcome}`);
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
