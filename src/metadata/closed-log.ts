/** The metadata log of a directory that nobody uses, as whoever checks or repairs that reads it. */
import type { Files } from '../log/log.ts';
import { SegmentFile } from '../log/segment-file.ts';
import { segmentBases, segmentFileName } from '../log/segment-names.ts';
import { RecordBatch } from '../protocol/records/reader.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { ClusterImage, ConfigResource, ImageLoader } from './image.ts';
import { snapshotNames } from './kraft-files.ts';
import { decodeMetadataRecord } from './records.ts';
import { loadNewest } from './snapshot.ts';

export interface ClosedMetadata {
  readonly image: ClusterImage;
  /** Base offsets of the segments, ascending. */
  readonly bases: readonly number[];
  /** Base offsets of the batches that do not fit what comes before them. */
  readonly unfit: ReadonlySet<number>;
}

/** What the newest snapshot that is whole and the log behind it say. What is damaged is passed over. */
export async function replayClosed(files: Files, folder: string): Promise<ClosedMetadata> {
  const names = (await files.list(folder)).map(({ name }) => name);
  const { snapshot } = await loadNewest(files, folder, snapshotNames(names));
  const from = snapshot?.endOffset ?? 0;
  const image = new ClusterImage();
  const loader = new ImageLoader(image);
  if (from > 0) for (const record of snapshot?.records ?? []) loader.apply(record);
  const unfit = new Set<number>();
  const bases = segmentBases(names);
  for (const base of bases) {
    const file = await SegmentFile.open(`${folder}/${segmentFileName(base, '.log')}`);
    try {
      for await (const placed of file.batches()) {
        for (const { batch } of placed) {
          if (!(batch instanceof RecordBatch) || batch.isControl || batch.lastOffset < from) continue;
          if (!fits(batch, image, loader, from)) unfit.add(batch.baseOffset);
        }
      }
    } finally {
      await file.close();
    }
  }
  return { image, bases, unfit };
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
