/**
 * Repairs a segment of the metadata log that nobody uses. Records that do nothing (NoOpRecord) stand for what was damaged: Apache
 * Kafka reads no batch without records here. Changes of what is gone with it (the configs of a topic that was made there) can't be
 * applied any more, and go too.
 */
import type { Files } from '../log/log.ts';
import { type Fill, type RepairOptions, repairSegment, type SegmentRepair } from '../log/segment-repair.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { replayClosed } from './closed-log.ts';
import { encodeMetadataRecord } from './records.ts';

const RECORDS_PER_BATCH = 5000;
/** More are missing by no damage that leaves the rest of a segment whole. */
const MOST_OFFSETS = 10_000_000;

/** As repairSegment. */
export async function repairMetadata(
  files: Files,
  folder: string,
  baseOffset: number,
  nextBase: number,
  options: RepairOptions,
): Promise<SegmentRepair | undefined> {
  const repaired = await repairSegment(files, folder, baseOffset, nextBase, { ...options, fill: noOps });
  if (repaired === undefined) return undefined;
  const { moved } = repaired;
  let { bytes, offsets } = repaired;
  for (;;) {
    const { unfit: refused, bases } = await replayClosed(files, folder);
    if (refused.size === 0) return { bytes, offsets, moved };
    const before = offsets;
    for (const [i, base] of bases.entries()) {
      const next = bases[i + 1] ?? Number.POSITIVE_INFINITY;
      const more = await repairSegment(files, folder, base, next, { refused, fill: noOps });
      bytes += more?.bytes ?? 0;
      offsets += more?.offsets ?? 0;
    }
    if (offsets === before) throw new Error(`${folder}: batches at ${[...refused].join(', ')} stay`);
  }
}

const noOps: Fill = (firstOffset, nextOffset, leaderEpoch) => {
  if (nextOffset - firstOffset > MOST_OFFSETS)
    throw new BroadsheetError(
      'CORRUPT',
      `offsets ${firstOffset} to ${nextOffset} of the metadata log are missing`,
    );
  const writer = new Writer();
  encodeMetadataRecord(writer, { type: 'NoOp', version: 0, data: {} });
  const parts: Uint8Array[] = [];
  for (let baseOffset = firstOffset; baseOffset < nextOffset; baseOffset += RECORDS_PER_BATCH) {
    const builder = new BatchBuilder({ baseOffset, leaderEpoch: Math.max(leaderEpoch, 0) });
    const count = Math.min(RECORDS_PER_BATCH, nextOffset - baseOffset);
    for (let i = 0; i < count; i++) builder.append({ timestamp: 0, key: null, value: writer.bytes() });
    parts.push(builder.build());
  }
  return Buffer.concat(parts);
};
