/** The files of the metadata log's folder besides the log itself: names and contents. */
import {
  LEADER_EPOCH_FILE,
  OffsetCheckpoint,
  PARTITION_METADATA_FILE,
  partitionMetadataText,
  RECOVERY_POINT_FILE,
  readOffsetCheckpoint,
} from '../log/checkpoints.ts';
import { LeaderEpochs } from '../log/leader-epochs.ts';
import type { Files } from '../log/log.ts';
import { readTopicId } from '../log/partition-loader.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';

export const METADATA_TOPIC = '__cluster_metadata';
export const METADATA_FOLDER = `${METADATA_TOPIC}-0`;
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

/** The state in the folder's `quorum-state`; undefined where it is missing or damaged: the log knows the last epoch too. */
export async function readQuorumState(
  files: Files,
  folder: string,
  logger: Logger,
): Promise<QuorumState | undefined> {
  const path = `${folder}/quorum-state`;
  if (!(await files.exists(path))) return undefined;
  try {
    return parseQuorumState((await files.read(path, 1024 * 1024)).toString('utf8'), path);
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    if (code !== 'CORRUPT' && code !== 'LIMIT') throw error;
    logger.warn({ path, reason: message }, 'quorum-state is damaged and is made again from the log');
    return undefined;
  }
}

/** Makes the metadata log's folder. What is given puts its topic id right where that is missing or damaged: the name of the
 * folder tells as much. */
export async function prepareMetadataFolder(
  files: Files,
  dataDir: string,
  logger: Logger,
): Promise<{ readonly folder: string; mend(): Promise<void> }> {
  const folder = `${dataDir}/${METADATA_FOLDER}`;
  const path = `${folder}/${PARTITION_METADATA_FILE}`;
  const text = partitionMetadataText(METADATA_TOPIC_ID);
  if (!(await files.exists(folder))) {
    await files.createDurable(path, text);
    return { folder, mend: async () => {} };
  }
  const topicId = await readTopicId(files, folder);
  const mend = async () => {
    if (topicId === METADATA_TOPIC_ID) return;
    logger.warn(
      { path, topicId },
      "the metadata log's topic id is missing or damaged, and was written again",
    );
    await files.writeAtomic(path, text);
  };
  return { folder, mend };
}

/** The history of the log's epochs; one that is missing or does not parse is made anew from what the replay sees. */
export async function readEpochs(files: Files, folder: string): Promise<LeaderEpochs> {
  try {
    return LeaderEpochs.parse((await files.read(`${folder}/${LEADER_EPOCH_FILE}`)).toString('latin1'));
  } catch (error) {
    if (['NOT_FOUND', 'CORRUPT', 'LIMIT'].includes((error as BroadsheetError).code))
      return new LeaderEpochs();
    throw error;
  }
}

/** The latest epoch of the log; both files had it before the log. Undefined where one is missing: the other may be damaged. */
export function latestEpoch(state: QuorumState | undefined, epochs: LeaderEpochs): number | undefined {
  if (state === undefined || epochs.latest === undefined) return undefined;
  return Math.max(state.leaderEpoch, epochs.latest.epoch);
}

/** How far the metadata log is known to go, which is noted in its folder, where Apache Kafka leaves it alone; 0 if nothing tells. */
export async function readKnownEnd(files: Files, folder: string, logger: Logger): Promise<number> {
  const noted = await readOffsetCheckpoint(files, `${folder}/${RECOVERY_POINT_FILE}`, logger);
  const { offset, checked } = noted.of(METADATA_TOPIC, METADATA_TOPIC_ID, 0);
  return checked ? offset : 0;
}

/** Notes it; all below is on disk, and a batch's border. Rejects with IO, NO_SPACE ... */
export function writeKnownEnd(files: Files, folder: string, offset: number): Promise<void> {
  const noted = new OffsetCheckpoint();
  noted.set(METADATA_TOPIC, 0, offset, METADATA_TOPIC_ID);
  return files.writeAtomic(`${folder}/${RECOVERY_POINT_FILE}`, noted.text());
}
