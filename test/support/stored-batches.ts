/** The batches of a partition as they lie in its segments, and how far a directory was cleaned. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CLEANER_FILE } from '../../src/log/checkpoints.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { partitionFiles } from './dump-log.ts';

const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());

/** Each batch of the first partition of a topic as a line: offsets, producer, attributes, records with their times, and the
 * checksum where the bytes don't hang on the time of a cleaning or on a compressor. Markers are without times. */
export function storedBatches(dataDir: string, topic: string): string[] {
  const found: string[] = [];
  for (const path of partitionFiles(dataDir, '.log').filter((each) => each.includes(`/${topic}-0/`))) {
    for (const batch of readBatches(readFileSync(path))) {
      if (!(batch instanceof RecordBatch)) throw new Error('an old format');
      batch.ensureValid();
      const { baseOffset, lastOffset, producerId, producerEpoch, baseSequence, isControl } = batch;
      const records = [...batch.records()].map(({ offset, timestamp, key, value, headers }) =>
        isControl
          ? `${offset} ${Buffer.from(key!).toString('hex')}`
          : `${offset} ${timestamp} ${text(key)}=${text(value)} ${headers.map((each) => `${each.key}:${text(each.value)}`)}`,
      );
      const horizon = batch.deleteHorizon !== undefined;
      const kind: string[] = [batch.compression, batch.timestampType];
      if (batch.isTransactional) kind.push('transactional');
      if (isControl) kind.push('control');
      if (horizon) kind.push('horizon');
      if (!isControl) kind.push(`max ${batch.maxTimestamp}`);
      if (!isControl && !horizon) kind.push(`base ${batch.baseTimestamp}`);
      if (!isControl && !horizon && batch.compression === 'none') kind.push(`crc ${batch.crc}`);
      const producer = `${producerId}/${producerEpoch} seq ${baseSequence}`;
      found.push(`${baseOffset}-${lastOffset} ${producer} ${kind.join(' ')} [${records}]`);
    }
  }
  return found;
}

/** Where the dirty part of each partition begins, by `topic partition`. */
export function cleanedOffsets(dataDir: string): Map<string, number> {
  let lines: string[];
  try {
    lines = readFileSync(join(dataDir, CLEANER_FILE), 'utf8').split('\n');
  } catch (error) {
    // Nothing was cleaned yet.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw error;
  }
  return new Map(
    lines.flatMap((line) => {
      // Not the checksum.
      const found = /^([^#\s]\S* \d+) (\d+)$/.exec(line);
      return found === null ? [] : [[found[1]!, Number(found[2])] as const];
    }),
  );
}
