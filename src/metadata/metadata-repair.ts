/**
 * Repairs a segment of the metadata log that nobody uses. Records that do nothing (NoOpRecord) stand for what was damaged: Apache
 * Kafka reads no batch without records here. Changes of what is gone with it (the configs of a topic that was made there) can't be
 * applied any more, and go too.
 */
import type { Files } from '../log/log.ts';
import { SegmentFile } from '../log/segment-file.ts';
import { offsetOfFileName, segmentFileName } from '../log/segment-names.ts';
import { type Fill, type RepairOptions, repairSegment, type SegmentRepair } from '../log/segment-repair.ts';
import { RecordBatch } from '../protocol/records/reader.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { ClusterImage, ConfigResource, ImageLoader } from './image.ts';
import { snapshotNames } from './kraft-files.ts';
import { decodeMetadataRecord, encodeMetadataRecord } from './records.ts';
import { loadNewest } from './snapshot.ts';

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
  let { bytes, offsets } = repaired;
  for (let refused = await unfit(files, folder); refused.size > 0; refused = await unfit(files, folder)) {
    const bases = await segmentBases(files, folder);
    for (const [i, base] of bases.entries()) {
      const next = bases[i + 1] ?? Number.POSITIVE_INFINITY;
      const more = await repairSegment(files, folder, base, next, { refused, fill: noOps });
      bytes += more?.bytes ?? 0;
      offsets += more?.offsets ?? 0;
    }
  }
  return { bytes, offsets };
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

async function segmentBases(files: Files, folder: string): Promise<number[]> {
  return (await files.list(folder))
    .map(({ name }) => (name.endsWith('.log') ? offsetOfFileName(name) : undefined))
    .filter((base) => base !== undefined)
    .sort((a, b) => a - b);
}

/** Base offsets of the batches that do not fit what comes before them. */
async function unfit(files: Files, folder: string): Promise<Set<number>> {
  const names = (await files.list(folder)).map(({ name }) => name);
  const { snapshot } = await loadNewest(files, folder, snapshotNames(names));
  const from = snapshot?.endOffset ?? 0;
  const image = new ClusterImage();
  const loader = new ImageLoader(image);
  if (from > 0) for (const record of snapshot?.records ?? []) loader.apply(record);
  const found = new Set<number>();
  for (const base of await segmentBases(files, folder)) {
    const file = await SegmentFile.open(`${folder}/${segmentFileName(base, '.log')}`);
    try {
      for await (const placed of file.batches()) {
        for (const { batch } of placed) {
          if (!(batch instanceof RecordBatch) || batch.isControl || batch.lastOffset < from) continue;
          if (!fits(batch, image, loader, from)) found.add(batch.baseOffset);
        }
      }
    } finally {
      await file.close();
    }
  }
  return found;
}

function fits(batch: RecordBatch, image: ClusterImage, loader: ImageLoader, from: number): boolean {
  try {
    for (const { offset, value } of batch.records()) {
      if (offset < from) continue;
      const record = decodeMetadataRecord(value ?? new Uint8Array());
      // It would wait for a later topic of that name.
      if (record.type === 'Config' && record.data.resourceType === ConfigResource.TOPIC)
        if (!loader.inTransaction && !image.topicsByName.has(record.data.resourceName)) return false;
      loader.apply(record);
    }
    return true;
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    return false;
  }
}
