/**
 * The metadata log of one directory: opens it, replays it, leads it, and changes it by the controller's decisions.
 *
 * A change is applied in the call that makes it and durable when durable() resolves. An answer that tells of it waits for
 * that, and so does a new partition's folder: Kafka sets aside a folder that no topic owns.
 */
import { LEADER_EPOCH_FILE, PARTITION_METADATA_FILE } from '../log/checkpoints.ts';
import { LogCommitter } from '../log/committer.ts';
import { cutWhereSynced, forgetFailedFlush } from '../log/failed-flush.ts';
import type { LeaderEpochs } from '../log/leader-epochs.ts';
import type { LogEngine } from '../log/log.ts';
import { cutLog, type LogCut } from '../log/log-cut.ts';
import type { RecordBatch } from '../protocol/records/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type Logger, silentLogger } from '../runtime/logging.ts';
import {
  allocateProducerIds,
  type ControllerSettings,
  createTopic,
  deleteTopic,
  type EndPoint,
  electLeaders,
  type Refusal,
  registerBroker,
  repeatedNames,
  type TopicReference,
  type TopicSpec,
  tooManyPartitions,
} from './controller.ts';

import { type FeatureUpdate, updateFeatures } from './controller-features.ts';
import type { VotersView } from './controller-nodes.ts';
import { createPartitions, type PartitionsSpec, tooManyMorePartitions } from './controller-partitions.ts';
import {
  INITIAL_FEATURES,
  KRAFT_VERSION,
  MAX_METADATA_VERSION,
  MIN_METADATA_VERSION,
  SERVED_FEATURES,
} from './features.ts';

import { ClusterImage, ImageLoader } from './image.ts';
import { Journal } from './journal.ts';
import {
  formatQuorumState,
  latestEpoch,
  METADATA_FOLDER,
  METADATA_TOPIC,
  METADATA_TOPIC_ID,
  prepareMetadataFolder,
  type QuorumState,
  readEpochs,
  readKnownEnd,
  readQuorumState,
} from './kraft-files.ts';
import {
  createMetaProperties,
  type MetaProperties,
  randomUuid,
  readMetaProperties,
} from './meta-properties.ts';
import {
  DEFAULT_LOG_OPTIONS,
  type MetadataLogOptions,
  type OpenedLog,
  openMetadataLog,
  refuseOrphans,
} from './metadata-log.ts';
import { ProducerIdAllocator, type ProducerIdBlock } from './producer-ids.ts';
import { Quorum } from './quorum.ts';
import { decodeMetadataRecord, encodeMetadataRecord, type MetadataRecordInput } from './records.ts';
import type { Snapshot } from './snapshot.ts';
import { SnapshotKeeper, type SnapshotSettings } from './snapshot-keeper.ts';

export interface ClusterMetadataOptions {
  /** Absolute path of the directory; it exists and is locked. */
  readonly dataDir: string;
  readonly engine: LogEngine;
  /** Of that engine, when others write through it too. */
  readonly committer?: LogCommitter;
  /** The id of this node; undefined: that of the directory, 1 in a new one. */
  readonly nodeId?: number | undefined;
  /** num.partitions. */
  readonly defaultPartitions: number;
  /** Most partitions of all topics together. */
  readonly maxPartitions: number;
  /** Throws BroadsheetError INVALID_CONFIG when Kafka would refuse these values of a topic. */
  readonly validateTopicConfig: (values: ReadonlyMap<string, string>) => void;
  /** Ms since the epoch. */
  readonly now: number;
  /** Kafka's defaults if undefined. */
  readonly log?: MetadataLogOptions;
  /** Default: nobody is told of what was damaged and made again. */
  readonly logger?: Logger;
}

export interface QuorumView extends VotersView {
  readonly leaderEpoch: number;
  readonly logEndOffset: number;
  /** The end of what is durable. */
  readonly highWatermark: number;
}

export type CreateTopicResult =
  | {
      readonly name: string;
      readonly ok: true;
      readonly topicId: string;
      readonly numPartitions: number;
      readonly replicationFactor: number;
    }
  | ({ readonly name: string } & Refusal);

export type DeleteTopicResult =
  | { readonly ok: true; readonly name: string; readonly topicId: string }
  | (TopicReference & Refusal);

export type CreatePartitionsResult =
  | { readonly ok: true; readonly name: string; readonly firstIndex: number; readonly count: number }
  | ({ readonly name: string } & Refusal);

const MAX_EPOCH = 2 ** 31 - 1;

/** Changes of one batch; more make several batches, where they need not be one. */
const RECORDS_PER_BATCH = 5000;
/** Records of names and values that clients chose, up to 64 KiB each: Kafka reads no batch above 8 MiB. */
const RECORDS_PER_CHANGE = 50;

export class ClusterMetadata {
  readonly clusterId: string;
  /** The node id that the directory's records name: this broker's, everywhere. */
  readonly nodeId: number;
  readonly directoryId: string;
  readonly image: ClusterImage;
  readonly #dataDir: string;
  readonly #engine: LogEngine;
  readonly #journal: Journal;
  readonly #loader: ImageLoader;
  readonly #quorum: Quorum;
  readonly #settings: ControllerSettings;
  /** What a directory that Kafka formatted and never started is to begin with. */
  readonly #bootstrap: readonly MetadataRecordInput[];
  readonly #epochs: LeaderEpochs;
  readonly #damaged: OpenedLog['damaged'];
  readonly #replayFrom: number;
  /** Of what is in the log and not in the snapshot, until a keeper counts. */
  #bytesSinceSnapshot = 0;
  #lastTimestamp = 0;
  #snapshots: SnapshotKeeper | undefined;
  #epoch: number;
  #brokerEpoch = -1;
  /** What put files right that were missing or damaged, once the directory is known to be ours. */
  readonly #mends: (() => Promise<void>)[] = [];
  readonly #writer = new Writer();

  /**
   * Opens the directory and replays what is there; writes nothing into a log. Throws CORRUPT when the directory cannot be
   * this broker's: damaged, of several nodes, or written by a Kafka newer than 4.4.
   */
  static async open(options: ClusterMetadataOptions): Promise<ClusterMetadata> {
    const { dataDir, engine } = options;
    const { files } = engine;
    const logger = options.logger ?? silentLogger;
    const meta = await readMetaProperties(files, dataDir, logger);
    if (meta === undefined || !(await files.exists(`${dataDir}/${METADATA_FOLDER}`))) {
      await refuseOrphans(files, dataDir);
    }
    const { nodeId } = options;
    if (meta !== undefined && nodeId !== undefined && meta.nodeId !== nodeId) {
      throw new BroadsheetError(
        'INVALID_CONFIG',
        `node.id is ${nodeId}, and ${dataDir} belongs to node ${meta.nodeId}`,
      );
    }
    const owner = meta ?? (await createMetaProperties(files, dataDir, nodeId));
    const { folder, mend } = await prepareMetadataFolder(files, dataDir, logger);
    const names = (await files.list(folder)).map((entry) => entry.name);
    const state = await readQuorumState(files, folder, logger);
    const epochs = await readEpochs(files, folder);
    await cutWhereSynced(files, folder, logger);
    const opened = await openMetadataLog(engine, folder, names, options.log ?? DEFAULT_LOG_OPTIONS, {
      latestLeaderEpoch: latestEpoch(state, epochs),
      knownEnd: await readKnownEnd(files, folder, logger),
      now: options.now,
    });
    const { bytesTruncated, fault } = opened.log.recovery;
    if (bytesTruncated > 0)
      logger.warn({ folder, bytesTruncated, fault }, 'cut bytes off the end of the metadata log');
    try {
      const metadata = new ClusterMetadata(options, owner, opened, state, epochs);
      await metadata.#replay(opened.snapshot);
      metadata.#check(state);
      metadata.#mends.push(owner.mend, mend, () => forgetFailedFlush(files, folder));
      return metadata;
    } catch (error) {
      await opened.log.close();
      throw error;
    }
  }

  private constructor(
    options: ClusterMetadataOptions,
    owner: MetaProperties,
    opened: OpenedLog,
    state: QuorumState | undefined,
    epochs: LeaderEpochs,
  ) {
    const { log, snapshot } = opened;
    this.#damaged = opened.damaged;
    this.clusterId = owner.clusterId;
    this.nodeId = owner.nodeId;
    this.directoryId = owner.directoryId;
    this.image = new ClusterImage();
    this.#loader = new ImageLoader(this.image);
    this.#quorum = new Quorum(owner.nodeId, owner.directoryId);
    this.#dataDir = options.dataDir;
    this.#engine = options.engine;
    this.#journal = new Journal(
      log,
      options.committer ?? new LogCommitter(options.engine),
      options.engine.files,
    );
    this.#journal.onAppended = (bytes, timestamp) => {
      this.#bytesSinceSnapshot += bytes;
      this.#lastTimestamp = timestamp;
    };
    this.#settings = {
      nodeId: owner.nodeId,
      directoryId: owner.directoryId,
      defaultPartitions: options.defaultPartitions,
      maxPartitions: options.maxPartitions,
      validateTopicConfig: options.validateTopicConfig,
      newTopicId: randomUuid,
    };
    this.#epoch = Math.max(0, state?.leaderEpoch ?? 0, snapshot?.epoch ?? 0);
    this.#bootstrap = snapshot?.endOffset === 0 ? snapshot.records : [];
    this.#replayFrom = Math.max(log.logStartOffset, snapshot?.endOffset ?? 0);
    // The batches that the replay visits tell their epochs themselves.
    this.#epochs = epochs;
    epochs.truncateFromEnd(this.#replayFrom);
    epochs.truncateFromStart(log.logStartOffset);
  }

  /** The leader epoch of the metadata log; that of the last leader until activate(). */
  get epoch(): number {
    return this.#epoch;
  }

  /** The BrokerEpoch field of this broker's registration, -1 before activate(). A clean stop hands it on in
   * .kafka_cleanshutdown. */
  get brokerEpoch(): number {
    return this.#brokerEpoch;
  }

  /** The metadata log as a quorum of one. */
  get quorum(): QuorumView {
    const { log } = this.#journal;
    return {
      clusterId: this.clusterId,
      nodeId: this.nodeId,
      directoryId: this.directoryId,
      kraftVersion: this.#quorum.kraftVersion,
      leaderEpoch: this.#epoch,
      logEndOffset: log.logEndOffset,
      highWatermark: log.flushedOffset,
    };
  }

  /** Finalized features that this broker serves. */
  get servedFeatures(): Map<string, number> {
    const served = new Map<string, number>();
    for (const { name } of SERVED_FEATURES) {
      const level = name === KRAFT_VERSION ? this.#quorum.kraftVersion : this.image.features.get(name);
      if (level !== undefined) served.set(name, level);
    }
    return served;
  }

  /**
   * Takes the lead: begins the next epoch, registers this broker and leads every partition that has no leader. Durable
   * when it resolves. Call once, before any change. Throws OFFLINE, NO_SPACE, IO.
   */
  async activate(endPoints: readonly EndPoint[], now: number): Promise<void> {
    if (this.#epoch >= MAX_EPOCH) {
      throw new BroadsheetError('CORRUPT', `${this.#dataDir}: no leader epoch follows ${this.#epoch}`);
    }
    for (const mend of this.#mends.splice(0)) await mend();
    const { log } = this.#journal;
    const { files } = this.#engine;
    const isNew = this.image.metadataVersion === 0;
    const control = this.#quorum.beginEpoch(isNew);
    for (const { key, value } of control) this.#quorum.apply(key, value);
    this.#epoch++;
    const folder = `${this.#dataDir}/${METADATA_FOLDER}`;
    // Before the log's first batch of the epoch, so that an epoch is never used twice.
    await this.#writeQuorumState();
    this.#epochs.assign(this.#epoch, log.logEndOffset);
    await files.writeAtomic(`${folder}/${LEADER_EPOCH_FILE}`, this.#epochs.text());

    this.#journal.append(control, { leaderEpoch: this.#epoch, control: true, now });
    if (this.#loader.inTransaction) {
      this.#append(
        [{ type: 'AbortTransaction', version: 0, data: { reason: 'cut short by a restart' } }],
        now,
      );
    }
    if (isNew) this.#append(this.#bootstrapRecords(), now);
    this.#brokerEpoch = log.logEndOffset;
    this.#append(
      [
        registerBroker(this.image, {
          nodeId: this.nodeId,
          directoryId: this.directoryId,
          incarnationId: randomUuid(),
          brokerEpoch: this.#brokerEpoch,
          endPoints,
          features: SERVED_FEATURES,
        }),
      ],
      now,
    );
    const elections = electLeaders(this.image, this.nodeId, this.directoryId);
    for (let at = 0; at < elections.length; at += RECORDS_PER_BATCH) {
      this.#append(elections.slice(at, at + RECORDS_PER_BATCH), now);
    }
    await this.durable();
  }

  /**
   * Makes topics, each in one batch, and says of each what became of it; a name that comes twice is refused. With
   * validateOnly nothing is changed. Throws OFFLINE, NO_SPACE, IO, CLOSED.
   */
  createTopics(specs: readonly TopicSpec[], now: number, validateOnly = false): CreateTopicResult[] {
    const excess = tooManyPartitions(specs, this.#settings);
    const repeated = repeatedNames(specs.map((spec) => spec.name));
    const results: CreateTopicResult[] = [];
    for (const [name, refusal] of repeated) results.push({ name, ...refusal });
    for (const spec of specs) {
      const { name } = spec;
      if (repeated.has(name)) continue;
      const decision = excess ?? createTopic(this.image, spec, this.#settings);
      if (!decision.ok) {
        results.push({ name, ...decision });
        continue;
      }
      if (!validateOnly) this.#append(decision.records, now);
      const { topicId, numPartitions, replicationFactor } = decision;
      results.push({ name, ok: true, topicId, numPartitions, replicationFactor });
    }
    return results;
  }

  /**
   * Gives topics more partitions, each topic's in one batch, and says of each what became of it; a name that comes twice is
   * refused. Their folders are the caller's. With validateOnly nothing is changed. Throws as createTopics does.
   */
  createPartitions(
    specs: readonly PartitionsSpec[],
    now: number,
    validateOnly = false,
  ): CreatePartitionsResult[] {
    const repeated = repeatedNames(specs.map((spec) => spec.name));
    const results: CreatePartitionsResult[] = [];
    for (const [name, refusal] of repeated) results.push({ name, ...refusal });
    const once = specs.filter(({ name }) => !repeated.has(name));
    const excess = tooManyMorePartitions(this.image, once);
    for (const spec of once) {
      const { name, count } = spec;
      const decision = excess ?? createPartitions(this.image, spec, this.#settings);
      if (!decision.ok) {
        results.push({ name, ...decision });
        continue;
      }
      if (!validateOnly) this.#append(decision.records, now);
      results.push({ ok: true, name, firstIndex: decision.firstIndex, count });
    }
    return results;
  }

  /** Removes topics from the image and the log; their folders are the caller's. Throws as createTopics does. */
  deleteTopics(references: readonly TopicReference[], now: number): DeleteTopicResult[] {
    return references.map((reference) => {
      const decision = deleteTopic(this.image, reference);
      if (!decision.ok) return { ...reference, ...decision };
      this.#append(decision.records, now);
      return { ok: true, name: decision.name, topicId: decision.topicId };
    });
  }

  /** Appends what a decision says, in batches that a Kafka can read, and applies it. Throws as createTopics does. */
  change(records: readonly MetadataRecordInput[], now: number): void {
    for (let at = 0; at < records.length; at += RECORDS_PER_CHANGE) {
      this.#append(records.slice(at, at + RECORDS_PER_CHANGE), now);
    }
  }

  /** Finalizes other levels of features, all of them or none; undefined when that is done, and durable. Throws as
   * createTopics does. */
  async updateFeatures(
    updates: readonly FeatureUpdate[],
    now: number,
    validateOnly: boolean,
  ): Promise<Refusal | undefined> {
    const levels = new Map(this.image.features).set(KRAFT_VERSION, this.#quorum.kraftVersion);
    const decision = updateFeatures(levels, SERVED_FEATURES, updates);
    if (!decision.ok) return decision;
    if (validateOnly) return undefined;
    if (decision.records.length > 0) this.#append(decision.records, now);
    if (decision.kraftVersion !== undefined) {
      const control = this.#quorum.nameVoters(decision.kraftVersion);
      this.#journal.append(control, { leaderEpoch: this.#epoch, control: true, now });
      for (const { key, value } of control) this.#quorum.apply(key, value);
      await this.#writeQuorumState();
    }
    await this.durable();
    return undefined;
  }

  /** Hands out producer ids, one at a time, from blocks that are durable. */
  producerIds(now: () => number): ProducerIdAllocator {
    return new ProducerIdAllocator(async (): Promise<ProducerIdBlock> => {
      const decision = allocateProducerIds(this.image, this.nodeId, this.#brokerEpoch);
      if (!decision.ok) throw new BroadsheetError('LIMIT', decision.message);
      this.#append(decision.records, now());
      await this.durable();
      return { firstProducerId: decision.firstProducerId, count: decision.count };
    });
  }

  /** Resolves when all changes so far are durable. Rejects when they cannot be made so; the log is offline then and takes
   * nothing more until a restart. */
  durable(): Promise<void> {
    return this.#journal.flushed();
  }

  /** Makes snapshots of the log from now on, and deletes what they replace. Once, after activate(). */
  async keepSnapshots(settings: SnapshotSettings): Promise<SnapshotKeeper> {
    const damaged = this.#damaged;
    const folder = `${this.#dataDir}/${METADATA_FOLDER}`;
    for (const { fault } of damaged) {
      settings.logger.error(
        { reason: fault.message },
        'a snapshot of the metadata log is damaged: set aside',
      );
    }
    const keeper = new SnapshotKeeper(
      {
        folder,
        files: this.#engine.files,
        journal: this.#journal,
        image: this.image,
        now: () =>
          this.#loader.inTransaction
            ? undefined
            : { epoch: this.#epoch, control: this.#quorum.snapshotRecords() },
        onPrefixDeleted: (startOffset) => {
          this.#epochs.truncateFromStart(startOffset);
          return this.#engine.files.writeAtomic(`${folder}/${LEADER_EPOCH_FILE}`, this.#epochs.text());
        },
      },
      settings,
      { bytesSince: this.#bytesSinceSnapshot, lastTimestamp: this.#lastTimestamp },
    );
    this.#snapshots = keeper;
    this.#journal.noteEnds(settings.clock, settings.recoveryPointMs);
    await keeper.start(damaged.map(({ name }) => name));
    return keeper;
  }

  /** For a backup: nothing of the metadata log's files is removed until the function that is given is called. */
  async hold(): Promise<() => void> {
    return (await this.#snapshots?.hold()) ?? (() => {});
  }

  /** The metadata log as of now. */
  cut(): LogCut {
    const { log } = this.#journal;
    const snapshots = this.#snapshots?.namesUpTo(log.writtenOffset) ?? [];
    return cutLog(log, {
      ...{
        topic: METADATA_TOPIC,
        index: 0,
        topicId: METADATA_TOPIC_ID,
        highWatermark: log.flushedOffset,
      },
      files: [PARTITION_METADATA_FILE, LEADER_EPOCH_FILE, 'quorum-state', ...snapshots],
    });
  }

  /** Makes all durable and closes the log. Idempotent. */
  async close(): Promise<void> {
    await this.#snapshots?.close();
    await this.#journal.close();
  }

  async #writeQuorumState(): Promise<void> {
    await this.#engine.files.writeAtomic(
      `${this.#dataDir}/${METADATA_FOLDER}/quorum-state`,
      formatQuorumState(this.nodeId, this.#epoch, this.#quorum.kraftVersion),
    );
  }

  /** Appends records as one batch and applies what was written. */
  #append(records: readonly MetadataRecordInput[], now: number): void {
    const values = records.map((record) => {
      this.#writer.reset();
      encodeMetadataRecord(this.#writer, record);
      return Buffer.from(this.#writer.bytes());
    });
    this.#journal.append(
      values.map((value) => ({ key: null, value })),
      { leaderEpoch: this.#epoch, control: false, now },
    );
    for (const value of values) this.#loader.apply(decodeMetadataRecord(value));
  }

  #bootstrapRecords(): MetadataRecordInput[] {
    return [
      { type: 'BeginTransaction', version: 0, data: { name: 'Bootstrap records' } },
      ...(this.#bootstrap.length > 0 ? this.#bootstrap : featureRecords(INITIAL_FEATURES)),
      { type: 'EndTransaction', version: 0, data: {} },
    ];
  }

  async #replay(snapshot: Snapshot | undefined): Promise<void> {
    for (const { key, value } of snapshot?.control ?? []) this.#quorum.apply(key, value);
    // Of a snapshot at 0 the voters count at once; its records are what activate() begins the log with.
    if (snapshot !== undefined && snapshot.endOffset > 0) {
      for (const record of snapshot.records) this.#loader.apply(record);
    }
    await this.#journal.replay(this.#replayFrom, (batch) => this.#visit(batch));
  }

  #visit(batch: RecordBatch): void {
    if (batch.leaderEpoch > (this.#epochs.latest?.epoch ?? -1)) {
      this.#epochs.assign(batch.leaderEpoch, batch.baseOffset);
    }
    this.#epoch = Math.max(this.#epoch, batch.leaderEpoch);
    this.#bytesSinceSnapshot += batch.sizeInBytes;
    this.#lastTimestamp = batch.maxTimestamp;
    for (const { offset, key, value } of batch.records()) {
      if (offset < this.#replayFrom) continue;
      try {
        if (batch.isControl) this.#quorum.apply(key, value);
        else this.#loader.apply(decodeMetadataRecord(value ?? new Uint8Array()));
      } catch (error) {
        if (!(error instanceof BroadsheetError)) throw error;
        throw new BroadsheetError(
          'CORRUPT',
          `${this.#journal.log.dir}, offset ${offset}: ${error.message}`,
          0,
          { cause: error },
        );
      }
    }
  }

  /** Refuses a directory that this broker must not lead. */
  #check(state: QuorumState | undefined): void {
    const fail = (what: string) => new BroadsheetError('CORRUPT', `${this.#dataDir}: ${what}`);
    const strangers = this.#quorum.strangers(state?.voters);
    if (strangers.length > 0) {
      throw fail(
        `it belongs to a cluster of several controllers (node ${this.nodeId} and ${strangers.join(', ')}); only the directory of a single node can be opened`,
      );
    }
    const { metadataVersion } = this.image;
    const known = metadataVersion >= MIN_METADATA_VERSION && metadataVersion <= MAX_METADATA_VERSION;
    if (metadataVersion !== 0 && !known) {
      throw fail(
        `metadata.version ${metadataVersion}, only ${MIN_METADATA_VERSION} to ${MAX_METADATA_VERSION} are supported`,
      );
    }
    if (metadataVersion === 0 && this.image.topicsById.size > 0) {
      throw fail('the metadata log holds topics and no metadata.version');
    }
    for (const topic of this.image.topicsById.values()) {
      for (const { id, replicas } of topic.partitions.values()) {
        if (replicas.length === 1 && replicas[0] === this.nodeId) continue;
        throw fail(
          `${topic.name}-${id} has its replicas on nodes ${replicas.join(', ')}; only the directory of a single node (here ${this.nodeId}) can be opened`,
        );
      }
    }
  }
}

function featureRecords(levels: ReadonlyMap<string, number>): MetadataRecordInput[] {
  return [...levels].map(([name, featureLevel]) => ({
    type: 'FeatureLevel',
    version: 0,
    data: { name, featureLevel },
  }));
}
