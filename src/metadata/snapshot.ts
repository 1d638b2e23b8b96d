/** Snapshots of the metadata log, as Kafka writes them: `<end offset>-<epoch>.checkpoint`, a control batch that begins it,
 * data batches, a control batch that ends it. Offsets in it count from 0. */
import type { Files } from '../log/log.ts';
import { ControlType } from '../protocol/records/control.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type JournalRecord, recordBatches } from './journal.ts';
import type { SnapshotName } from './kraft-files.ts';
import { controlTypeOf } from './quorum.ts';
import { decodeMetadataRecord, type MetadataRecord } from './records.ts';

/** Largest snapshot that is read, bytes. */
const MAX_SNAPSHOT_BYTES = 1024 * 1024 * 1024;

export interface Snapshot extends SnapshotName {
  readonly control: readonly JournalRecord[];
  readonly records: readonly MetadataRecord[];
}

/** Reads a whole snapshot. Throws CORRUPT if it is damaged or does not end. */
export async function readSnapshot(files: Files, folder: string, name: SnapshotName): Promise<Snapshot> {
  const path = `${folder}/${name.name}`;
  const bytes = await files.read(path, MAX_SNAPSHOT_BYTES);
  const control: JournalRecord[] = [];
  const records: MetadataRecord[] = [];
  try {
    for (const batch of recordBatches(bytes)) {
      for (const record of batch.records()) {
        if (batch.isControl) control.push({ key: record.key, value: record.value });
        else records.push(decodeMetadataRecord(record.value ?? new Uint8Array()));
      }
    }
    const types = control.map(({ key }) => controlTypeOf(key));
    if (types[0] !== ControlType.SNAPSHOT_HEADER || types.at(-1) !== ControlType.SNAPSHOT_FOOTER) {
      throw new BroadsheetError('CORRUPT', 'its header or its footer is missing');
    }
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    throw new BroadsheetError('CORRUPT', `${path}: ${error.message}`, 0, { cause: error });
  }
  return { ...name, control, records };
}
