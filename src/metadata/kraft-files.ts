/** The files of the metadata log's folder besides the log itself: names and contents. */
import {
  PARTITION_METADATA_FILE,
  parsePartitionMetadata,
  partitionMetadataText,
} from '../log/checkpoints.ts';
import type { Files } from '../log/log.ts';
import { BroadsheetError } from '../runtime/errors.ts';

export const METADATA_FOLDER = '__cluster_metadata-0';
/** Topic id of the metadata log, the same in every cluster. */
export const METADATA_TOPIC_ID = 'AAAAAAAAAAAAAAAAAAAAAQ';

const NO_DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAAA';

/** What `quorum-state` says. */
export interface QuorumState {
  readonly leaderEpoch: number;
  /** Node ids of the voters; only the version that goes with kraft.version 0 names them. */
  readonly voters: readonly number[] | undefined;
}

/** Throws CORRUPT. */
export function parseQuorumState(text: string, path: string): QuorumState {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new BroadsheetError('CORRUPT', `${path}: ${(error as Error).message}`);
  }
  const state = (parsed ?? {}) as { leaderEpoch?: unknown; currentVoters?: unknown };
  const { leaderEpoch, currentVoters } = state;
  if (typeof leaderEpoch !== 'number' || !Number.isInteger(leaderEpoch) || leaderEpoch > 0x7fffffff) {
    throw new BroadsheetError('CORRUPT', `${path}: leaderEpoch is ${JSON.stringify(leaderEpoch)}`);
  }
  const voters = Array.isArray(currentVoters)
    ? currentVoters.map((voter: { voterId?: unknown } | null) => Number(voter?.voterId))
    : undefined;
  return { leaderEpoch, voters };
}

/** The state of a quorum of one that has elected itself. */
export function formatQuorumState(nodeId: number, leaderEpoch: number, kraftVersion: number): string {
  return JSON.stringify(
    kraftVersion >= 1
      ? { leaderId: nodeId, leaderEpoch, votedId: -1, votedDirectoryId: NO_DIRECTORY, data_version: 1 }
      : {
          clusterId: '',
          leaderId: nodeId,
          leaderEpoch,
          votedId: -1,
          appliedOffset: 0,
          currentVoters: [{ voterId: nodeId }],
          data_version: 0,
        },
  );
}

export interface SnapshotName {
  readonly name: string;
  /** The first offset that the snapshot does not hold. */
  readonly endOffset: number;
  readonly epoch: number;
}

/** The name of a snapshot that holds all below an offset, whose last record was written in an epoch. */
export function snapshotName(endOffset: number, epoch: number): SnapshotName {
  const name = `${String(endOffset).padStart(20, '0')}-${String(epoch).padStart(10, '0')}.checkpoint`;
  return { name, endOffset, epoch };
}

/** The finished snapshots among file names, newest first. */
export function snapshotNames(names: readonly string[]): SnapshotName[] {
  const found: SnapshotName[] = [];
  for (const name of names) {
    const match = /^(\d{20})-(\d{10})\.checkpoint$/.exec(name);
    const endOffset = Number(match?.[1]);
    if (match !== null && Number.isSafeInteger(endOffset))
      found.push({ name, endOffset, epoch: Number(match[2]) });
  }
  return found.sort((a, b) => b.endOffset - a.endOffset || b.epoch - a.epoch);
}

/** Base offset of the first segment among file names, or undefined if there is none. */
export function firstSegmentOffset(names: readonly string[]): number | undefined {
  let first: number | undefined;
  for (const name of names) {
    const match = /^(\d{20})\.log$/.exec(name);
    if (match !== null) first = Math.min(first ?? Number.POSITIVE_INFINITY, Number(match[1]));
  }
  return first;
}

/** Makes the metadata log's folder, or checks that the one that is there is its own. */
export async function prepareMetadataFolder(files: Files, dataDir: string): Promise<string> {
  const folder = `${dataDir}/${METADATA_FOLDER}`;
  const path = `${folder}/${PARTITION_METADATA_FILE}`;
  if (await files.exists(path)) {
    const topicId = parsePartitionMetadata((await files.read(path, 4096)).toString('utf8'), path);
    if (topicId !== METADATA_TOPIC_ID)
      throw new BroadsheetError('CORRUPT', `${path} names topic ${topicId}, not the metadata log's`);
  } else {
    await files.createDurable(path, partitionMetadataText(METADATA_TOPIC_ID));
  }
  return folder;
}
