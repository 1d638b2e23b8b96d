/** The files of the metadata log's folder, and the ones of the directory's root that tell of its state, besides the log
 * itself: names and contents. */
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

/** The newest finished snapshot among file names. */
export function newestSnapshot(names: readonly string[]): SnapshotName | undefined {
  let newest: SnapshotName | undefined;
  for (const name of names) {
    const match = /^(\d{20})-(\d{10})\.checkpoint$/.exec(name);
    if (match === null) continue;
    const found = { name, endOffset: Number(match[1]), epoch: Number(match[2]) };
    if (
      newest === undefined ||
      found.endOffset > newest.endOffset ||
      (found.endOffset === newest.endOffset && found.epoch > newest.epoch)
    ) {
      newest = found;
    }
  }
  return newest;
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

export interface EpochStart {
  readonly epoch: number;
  readonly startOffset: number;
}

/** leader-epoch-checkpoint: version, number of lines, then `epoch startOffset`. Lines that make no sense end the list:
 * the log itself tells the rest. */
export function parseEpochs(text: string): EpochStart[] {
  const [version, , ...lines] = text.split('\n');
  const entries: EpochStart[] = [];
  if (version !== '0') return entries;
  for (const line of lines) {
    const match = /^(\d{1,10}) (\d{1,16})$/.exec(line);
    if (match === null) break;
    entries.push({ epoch: Number(match[1]), startOffset: Number(match[2]) });
  }
  return entries;
}

export function formatEpochs(entries: readonly EpochStart[]): string {
  const lines = entries.map(({ epoch, startOffset }) => `${epoch} ${startOffset}\n`);
  return `0\n${entries.length}\n${lines.join('')}`;
}

/** Adds an epoch. What begins at or after its start, or has a higher epoch, never was. */
export function withEpoch(entries: readonly EpochStart[], added: EpochStart): EpochStart[] {
  const kept = entries.filter((entry) => entry.startOffset < added.startOffset && entry.epoch < added.epoch);
  return [...kept, added];
}

export function formatPartitionMetadata(topicId: string): string {
  return `version: 0\ntopic_id: ${topicId}`;
}

/** The topic id of a partition.metadata file. Throws CORRUPT. */
export function parsePartitionMetadata(text: string, path: string): string {
  const match = /^version: 0\r?\ntopic_id: ([A-Za-z0-9_-]{22})\s*$/.exec(text);
  if (match === null) throw new BroadsheetError('CORRUPT', `${path}: neither version 0 nor a topic id in it`);
  return match[1]!;
}

/** Makes the metadata log's folder, or checks that the one that is there is its own. */
export async function prepareMetadataFolder(files: Files, dataDir: string): Promise<string> {
  const folder = `${dataDir}/${METADATA_FOLDER}`;
  const path = `${folder}/partition.metadata`;
  if (await files.exists(path)) {
    const topicId = parsePartitionMetadata((await files.read(path, 4096)).toString('utf8'), path);
    if (topicId !== METADATA_TOPIC_ID)
      throw new BroadsheetError('CORRUPT', `${path} names topic ${topicId}, not the metadata log's`);
  } else {
    await files.createDurable(path, formatPartitionMetadata(METADATA_TOPIC_ID));
  }
  return folder;
}

/** Written last at a clean stop and removed at the start. */
export const CLEAN_SHUTDOWN_FILE = '.kafka_cleanshutdown';

/** brokerEpoch is the BrokerEpoch field of the last registration: Kafka trusts the file only then. */
export function formatCleanShutdown(brokerEpoch: number): string {
  return JSON.stringify({ version: 0, brokerEpoch });
}
