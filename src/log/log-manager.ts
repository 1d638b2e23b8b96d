/**
 * All partitions of a data directory: opening, creating and deleting them, writing what a tick staged, flushing, and the
 * checkpoints at the directory's root. The metadata log is not among them.
 */
import type { TopicConfig } from '../config/topic-config.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { Timers } from '../runtime/timers.ts';
import {
  CLEAN_SHUTDOWN_FILE,
  CLEANER_FILE,
  cleanShutdownText,
  HIGH_WATERMARK_FILE,
  LEADER_EPOCH_FILE,
  LOG_START_FILE,
  PARTITION_METADATA_FILE,
  partitionMetadataText,
  RECOVERY_POINT_FILE,
  readCleanShutdown,
  readOffsetCheckpoint,
} from './checkpoints.ts';
import { CleanerThread, type SegmentCleaner } from './cleaner-thread.ts';
import type { LogCommitter } from './committer.ts';
import type { Compaction } from './compaction.ts';
import { forEachConcurrently } from './concurrency.ts';
import { DeletedPartitions } from './deleted-partitions.ts';
import { noteFailedFlush } from './failed-flush.ts';
import { GroupFlush } from './group-flush.ts';
import type { Files, LogEngine } from './log.ts';
import { LogCleaner } from './log-cleaner.ts';
import { LogRetention } from './log-retention.ts';
import type { LogManagerSettings } from './log-settings.ts';
import { LogStarts } from './log-starts.ts';
import { Partition, type PartitionHost, type PartitionWatcher } from './partition.ts';
import { PartitionFolders } from './partition-folders.ts';
import { type LoadedPartition, loadNewPartition, loadPartition } from './partition-loader.ts';
import { parsePartitionFolder, partitionFolder } from './partition-names.ts';
import { encodeSnapshot, type ProducerSnapshots } from './producer-snapshot.ts';
import { ROOT_CHECKPOINTS, RootCheckpoints, type UnopenedPartition } from './root-checkpoints.ts';
import { SegmentHold } from './segment-hold.ts';
import { segmentFileName } from './segment-names.ts';
import { SnapshotWriter } from './snapshot-writer.ts';

/** Folder of the metadata log, which its own owner opens. */
const METADATA_FOLDER = '__cluster_metadata-0';
/** flush.ms above this (about 30,000 years) means never. */
const LONGEST_FLUSH_MS = 1e15;

/** What the metadata says of a partition. */
export interface PartitionDescription {
  /** 22 characters of base64url. */
  readonly topicId: string;
  readonly leaderEpoch: number;
  readonly config: TopicConfig;
}

export interface LogManagerOptions {
  readonly dataDir: string;
  readonly engine: LogEngine;
  readonly committer: LogCommitter;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly settings: LogManagerSettings;
  /** 0 <= x < 1; default: Math.random. */
  readonly random?: () => number;
  /** Default: a thread. */
  readonly cleaner?: SegmentCleaner;
  /** Watches every partition. */
  readonly watcher?: PartitionWatcher;
  /** Appends were completed outside of commitTick (a flush ended): answers may wait to be sent. */
  readonly onActivity?: () => void;
  /** A write found no space: gives what its appends are told. */
  readonly onNoSpace?: (error: BroadsheetError) => BroadsheetError;
}

interface Slot {
  readonly partition: Partition;
  readonly snapshots: ProducerSnapshots;
  flushTimer: Timer | undefined;
}

/** Until a note of a failed flush that could not be written is tried again. */
const NOTE_AGAIN_MS = 5_000;

type Describe = (topic: string, index: number) => PartitionDescription | undefined;

export class LogManager implements PartitionHost {
  /** What a backup holds: no file of a segment is renamed or removed meanwhile. */
  readonly hold = new SegmentHold();
  readonly random: () => number;
  readonly #options: LogManagerOptions;
  readonly #files: Files;
  readonly #logger: Logger;
  /** By topic name, then index; an index may be missing. */
  readonly #topics = new Map<string, Slot[]>();
  readonly #topicsById = new Map<string, Slot[]>();
  readonly #slots = new Map<Partition, Slot>();
  readonly #deleted: DeletedPartitions;
  readonly #failures = new Map<string, UnopenedPartition & { readonly error: BroadsheetError }>();
  readonly #creating = new Set<string>();

  #staged = new Set<Partition>();
  /** Since all was last asked to be flushed. */
  #dirtyBytes = 0;
  #settled: Partition[] = [];
  readonly #snapshots: SnapshotWriter;
  readonly #flushes: GroupFlush;
  /** Background file work that close() waits for. */
  readonly #background = new Set<Promise<void>>();
  readonly #timers: Timers;
  readonly #checkpoints: RootCheckpoints;
  readonly #retention: LogRetention;
  readonly #cleaner: LogCleaner;
  #closing: Promise<void> | undefined;

  private constructor(options: LogManagerOptions) {
    this.#options = options;
    this.random = options.random ?? Math.random;
    const { clock, logger, dataDir, settings, engine, cleaner = new CleanerThread() } = options;
    this.#files = engine.files;
    this.#logger = logger;
    this.#timers = new Timers(clock);
    const known = { partitions: () => this.#slots.keys(), unopened: () => this.#failures.values() };
    this.#checkpoints = new RootCheckpoints(this.#files, dataDir, known);
    const host = {
      hold: this.hold,
      partitions: () => this.partitions(),
      roll: (partition: Partition) => this.#roll(partition),
      checkpointLogStarts: () => this.checkpointLogStarts(),
      checkpointFlushed: () => this.#checkpoints.write(RECOVERY_POINT_FILE),
      ensureSnapshot: (partition: Partition, offset: number) => this.#ensureSnapshot(partition, offset),
      removeSnapshots: (partition: Partition) => this.#snapshots.removeOld(partition),
      inBackground: (what: string, work: Promise<void>) => this.#inBackground(what, work),
    };
    this.#snapshots = new SnapshotWriter(this.#files, (partition) => this.#slots.get(partition)?.snapshots);
    this.#deleted = new DeletedPartitions(dataDir, clock, (partition) =>
      this.#inBackground('remove a deleted partition', this.#remove(partition)),
    );
    this.#retention = new LogRetention(host, this.#files, clock, logger, settings.maxBytes);
    const parts = { host, retention: this.#retention, files: this.#files, dataDir, clock, logger };
    this.#cleaner = new LogCleaner({ ...parts, cleaner, engine: engine.name, settings: settings.cleaner });
    this.#flushes = new GroupFlush(engine, (partitions) => this.#onFlushed(partitions));
  }

  /**
   * Opens every partition folder that the metadata knows, in parallel. Others are set aside as `-stray`, folders of
   * earlier deletions are removed. A partition that does not open is logged and reported by failure(); the others go on.
   */
  static async open(options: LogManagerOptions, describe: Describe): Promise<LogManager> {
    const manager = new LogManager(options);
    await manager.#openAll(describe);
    manager.#startTimers();
    return manager;
  }

  // --- finding ---

  partition(topic: string, index: number): Partition | undefined {
    return this.#topics.get(topic)?.[index]?.partition;
  }

  partitionById(topicId: string, index: number): Partition | undefined {
    return this.#topicsById.get(topicId)?.[index]?.partition;
  }

  /** Why a partition of the metadata could not be opened. */
  failure(topic: string, index: number): BroadsheetError | undefined {
    return this.#failures.get(partitionFolder(topic, index))?.error;
  }

  partitions(): Partition[] {
    return [...this.#slots.values()].map((slot) => slot.partition);
  }

  // --- opening ---

  async #openAll(describe: Describe): Promise<void> {
    const { dataDir } = this.#options;
    const cleanShutdown = (await readCleanShutdown(this.#files, dataDir)) !== undefined;
    await this.#files.remove(`${dataDir}/${CLEAN_SHUTDOWN_FILE}`);
    const [recoveryPoints, cleaned, logStarts] = await Promise.all([
      readOffsetCheckpoint(this.#files, `${dataDir}/${RECOVERY_POINT_FILE}`, this.#logger),
      readOffsetCheckpoint(this.#files, `${dataDir}/${CLEANER_FILE}`, this.#logger),
      LogStarts.read(this.#files, dataDir, this.#logger),
    ]);
    const found = (await this.#files.list(dataDir)).filter((entry) => entry.directory);
    const folders = new PartitionFolders(this.#files, dataDir, this.#logger);
    await forEachConcurrently(found, async ({ name }) => {
      if (name === METADATA_FOLDER) return;
      const parsed = parsePartitionFolder(name);
      if (parsed === undefined) {
        const removal = folders.meetForeign(name);
        if (removal !== undefined) this.#inBackground('remove a deleted partition', removal);
        return;
      }
      const { topic, index } = parsed;
      const dir = `${dataDir}/${name}`;
      const description = describe(topic, index);
      const topicId = description?.topicId ?? '';
      const recoveryPoint = recoveryPoints.of(topic, topicId, index);
      const logStart = logStarts.get(topic, topicId, index);
      try {
        if (!(await folders.belongs(topic, index, dir, description?.topicId))) return;
        const loaded = await loadPartition(
          this.#options.engine,
          dir,
          {
            ...description!,
            ...{ logStart, recoveryPoint },
            wasCompacted: cleaned.get(topic, index) !== undefined,
            cleanShutdown,
            now: this.#options.clock.now(),
            producerExpirationMs: this.#options.settings.producerExpirationMs,
          },
          this.#logger,
        );
        this.#add(topic, index, description!, loaded);
      } catch (error) {
        const failure = asBroadsheetError(error);
        this.#failures.set(name, { topic, topicId, index, recoveryPoint, logStart, error: failure });
        this.#logger.error({ topic, partition: index, reason: failure.message }, 'partition does not open');
      }
    });
    this.#cleaner.open(cleaned);
    this.#checkpoints.begin(recoveryPoints);
  }

  #add(topic: string, index: number, description: PartitionDescription, loaded: LoadedPartition): Partition {
    const { topicId, config, leaderEpoch } = description;
    const { log, producers, aborted, epochs, snapshots } = loaded;
    const parts = { topic, topicId, index, log, producers, aborted, epochs, config };
    const partition = new Partition(parts, this);
    partition.becomeLeader(leaderEpoch);
    if (this.#options.watcher !== undefined) partition.watch(this.#options.watcher);
    const slot: Slot = { partition, snapshots, flushTimer: undefined };
    let slots = this.#topics.get(topic);
    if (slots === undefined) {
      slots = [];
      this.#topics.set(topic, slots);
      this.#topicsById.set(topicId, slots);
    }
    slots[index] = slot;
    this.#slots.set(partition, slot);
    this.#options.committer.register(log, (_, error) => {
      const isFull = error?.code === 'NO_SPACE' && log.offline === undefined;
      this.#settle(partition, (isFull && this.#options.onNoSpace?.(error)) || error);
    });
    return partition;
  }

  // --- creating and deleting ---

  /** Makes a partition. Its partition.metadata is durable before this resolves, so before its first byte. Rejects when the
   * folder exists, with IO, NO_SPACE ... */
  async create(topic: string, index: number, description: PartitionDescription): Promise<Partition> {
    this.#assertOpen();
    const folder = partitionFolder(topic, index);
    if (this.partition(topic, index) !== undefined || this.#creating.has(folder))
      throw new BroadsheetError('INVALID_ARGUMENT', `partition ${folder} exists`);
    this.#creating.add(folder);
    try {
      await this.#checkpoints.forgetLeft();
      const dir = `${this.#options.dataDir}/${folder}`;
      await this.#files.createDurable(
        `${dir}/${PARTITION_METADATA_FILE}`,
        partitionMetadataText(description.topicId),
        // A power cut that took its name and left that of a later segment would take the beginning of the log.
        `${dir}/${segmentFileName(0, '.log')}`,
      );
      const { config } = description;
      const now = this.#options.clock.now();
      const loaded = await loadNewPartition(this.#options.engine, dir, { config, now }, this.#logger);
      this.#failures.delete(folder);
      return this.#add(topic, index, description, loaded);
    } finally {
      this.#creating.delete(folder);
    }
  }

  /** Takes a topic's partitions out of service at once. When it resolves the name is free; the files go after
   * file.delete.delay.ms. Rejects with the first error; every partition was tried. */
  async deleteTopic(topic: string): Promise<void> {
    this.#assertOpen();
    const slots = (this.#topics.get(topic) ?? []).filter((slot) => slot !== undefined);
    this.#topics.delete(topic);
    for (const slot of slots) {
      this.#topicsById.delete(slot.partition.topicId);
      this.#slots.delete(slot.partition);
      slot.flushTimer?.cancel();
      slot.partition.markDeleted();
    }
    for (const [folder, failed] of this.#failures) if (failed.topic === topic) this.#failures.delete(folder);
    this.#checkpoints.partitionsLeft();
    try {
      await this.#deleted.add(slots.map((slot) => slot.partition));
    } catch (error) {
      throw asBroadsheetError(error);
    } finally {
      // A checkpoint that outlives its partition would be taken for that of the next one with its name.
      for (const file of ROOT_CHECKPOINTS) await this.#checkpoints.write(file);
    }
  }

  async #remove(partition: Partition): Promise<void> {
    const { log } = partition;
    // What still waits on it has to be answered first.
    if (log.logEndOffset > log.writtenOffset) this.commitTick();
    if (partition.pendingAppends > 0) {
      await log.flush().catch(() => {});
      this.#onFlushed([partition]);
    }
    this.#options.committer.unregister(log);
    await log.close().catch(() => {});
    await this.hold.change(() => this.#files.removeTree(log.dir));
  }

  /** Has a partition obey other values from now on. */
  setConfig(partition: Partition, config: TopicConfig): void {
    const slot = this.#slots.get(partition);
    if (slot === undefined) return;
    slot.flushTimer?.cancel();
    slot.flushTimer = undefined;
    partition.setConfig(config);
    this.#armFlushTimer(partition);
    this.#options.onActivity?.();
  }

  // --- the tick ---

  onStaged(partition: Partition, bytes: number): void {
    this.#staged.add(partition);
    this.#retention.grew(bytes);
    if (!partition.flushesEveryAppend) this.#dirtyBytes += bytes;
  }

  /** Writes all that was staged and completes it. Gives the partitions on which appends were completed or failed. */
  commitTick(): readonly Partition[] {
    this.#settled = [];
    if (this.#staged.size > 0) {
      const staged = this.#staged;
      this.#staged = new Set();
      this.#options.committer.commit();
      // Duplicates of what was written before have no commit to wait for.
      for (const partition of staged) this.#settle(partition, undefined);
      if (this.#dirtyBytes >= this.#options.settings.dirtyBytes) this.#flushDirty();
    }
    this.#startFlush();
    return this.#settled;
  }

  /** Writes what is staged and resolves when no append waits for a flush any more. */
  async settled(): Promise<void> {
    this.commitTick();
    while (this.#background.size > 0 && this.partitions().some((each) => each.pendingAppends > 0)) {
      await Promise.race(this.#background);
    }
  }

  #settle(partition: Partition, error: BroadsheetError | undefined): void {
    const waiting = partition.pendingAppends;
    const moved = partition.settle(error);
    if (moved || partition.pendingAppends !== waiting) this.#settled.push(partition);
    if (error !== undefined) this.#snapshots.drop(partition);
    for (const written of this.#snapshots.writePassed(partition)) {
      this.#inBackground('write a producer snapshot', written);
      // A closed segment is flushed, so that recovery has at most the open one to scan.
      this.onFlushNeeded(partition);
    }
    this.#armFlushTimer(partition);
  }

  onSnapshot(partition: Partition, offset: number, bytes: Uint8Array): void {
    this.#snapshots.add(partition, offset, bytes);
  }

  // --- retention ---

  /** Deletes what the topics' retention lets go of, and closes segments whose time is over. */
  async retain(): Promise<void> {
    await this.#retention.run();
  }

  /** Compacts all that a partition holds now; see LogCleaner.compactNow. */
  async compact(partition: Partition): Promise<Compaction> {
    this.#assertOpen();
    return this.#cleaner.compactNow(partition);
  }

  /** Closes the active segment of a partition, with a snapshot of its producers. */
  async #roll(partition: Partition): Promise<void> {
    if (!this.#slots.has(partition)) return;
    this.commitTick();
    const { log, producers } = partition;
    const offset = log.writtenOffset;
    partition.roll(this.#options.clock.now());
    await this.#snapshots.write(partition, offset, encodeSnapshot(producers));
  }

  /** That of a roll may be missing: a kill came before it was written. */
  async #ensureSnapshot(partition: Partition, offset: number): Promise<void> {
    const snapshots = this.#slots.get(partition)?.snapshots;
    if (snapshots === undefined) return;
    const { log, producers } = partition;
    let newest = snapshots.offsets[snapshots.offsets.length - 1] ?? -1;
    if (newest < offset) {
      this.commitTick();
      newest = log.writtenOffset;
      await this.#snapshots.write(partition, newest, encodeSnapshot(producers));
    }
    // A power cut that took the end of the log would take the snapshot with it.
    if (log.flushedOffset < newest) await log.flush();
  }

  // --- flushing ---

  onFlushNeeded(partition: Partition): void {
    this.#flushes.add(partition);
  }

  #flushDirty(): void {
    this.#dirtyBytes = 0;
    for (const { partition } of this.#slots.values()) {
      const { log } = partition;
      if (log.flushedOffset < log.writtenOffset && log.offline === undefined) this.onFlushNeeded(partition);
    }
  }

  #armFlushTimer(partition: Partition): void {
    const { flushMs } = partition.config;
    if (flushMs > LONGEST_FLUSH_MS || partition.log.writtenOffset <= partition.log.flushedOffset) return;
    const slot = this.#slots.get(partition);
    if (slot === undefined || slot.flushTimer !== undefined) return;
    slot.flushTimer = this.#options.clock.setTimer(flushMs, () => {
      slot.flushTimer = undefined;
      this.onFlushNeeded(partition);
      this.#startFlush();
    });
  }

  #startFlush(): void {
    const work = this.#flushes.start();
    if (work !== undefined) this.#inBackground('flush', work);
  }

  #onFlushed(partitions: readonly Partition[]): void {
    this.#settled = [];
    for (const partition of partitions) this.#settle(partition, undefined);
    if (this.#settled.length > 0) this.#options.onActivity?.();
  }

  onOffline(partition: Partition, error: BroadsheetError): void {
    this.#logger.error(
      { topic: partition.topic, partition: partition.index, reason: error.message },
      'partition is offline until the next start: writing it failed',
    );
    this.#noteFailedFlush(partition);
  }

  /** Again and again until it is on disk: a start without the note would trust what only the page cache had. */
  #noteFailedFlush(partition: Partition): void {
    const noted = noteFailedFlush(this.#files, partition.log).catch((error: unknown) => {
      if (partition.deleted) return;
      this.#timers.after(NOTE_AGAIN_MS, () => this.#noteFailedFlush(partition));
      throw error;
    });
    this.#inBackground('note a failed flush', noted);
  }

  // --- checkpoints ---

  #startTimers(): void {
    const { settings } = this.#options;
    this.#every(settings.recoveryPointCheckpointMs, () => this.checkpointRecoveryPoints());
    this.#every(settings.logStartCheckpointMs, () => this.checkpointLogStarts());
    this.#every(settings.highWatermarkCheckpointMs, () => this.#checkpoints.write(HIGH_WATERMARK_FILE));
    this.#every(settings.producerExpirationCheckMs, async () => this.expireProducers());
    this.#every(settings.retentionCheckMs, () => this.retain(), settings.retentionDelayMs);
  }

  #every(ms: number, task: () => Promise<void>, first = ms): void {
    this.#timers.every(ms, () => this.#inBackground('run a periodic task', task()), first);
  }

  expireProducers(): void {
    const now = this.#options.clock.now();
    for (const { partition } of this.#slots.values())
      partition.producers.expire(now, this.#options.settings.producerExpirationMs);
  }

  /** Flushes what is dirty, so that recovery after a kill is bounded, then writes leader epochs and recovery points. */
  async checkpointRecoveryPoints(): Promise<void> {
    this.#flushDirty();
    this.#startFlush();
    await this.#writeSideFiles();
    await this.#checkpoints.write(RECOVERY_POINT_FILE);
  }

  /** Makes it durable where logs start. */
  checkpointLogStarts(): Promise<void> {
    return this.#checkpoints.write(LOG_START_FILE);
  }

  /** Writes leader epochs and aborted transactions that are in no file yet. */
  async #writeSideFiles(): Promise<void> {
    await forEachConcurrently(this.partitions(), async (partition) => {
      const { epochs, aborted, log } = partition;
      const epochsDirty = epochs.dirty;
      if (partition.deleted || (!epochsDirty && aborted.isSaved(log.writtenOffset))) return;
      try {
        if (epochsDirty) await this.#files.writeAtomic(`${log.dir}/${LEADER_EPOCH_FILE}`, epochs.text());
        await aborted.save(this.#files, log);
      } catch (error) {
        if (epochsDirty) epochs.dirty = true;
        if (!partition.deleted) throw error;
      }
    });
  }

  // --- closing ---

  /**
   * Writes and flushes everything, then snapshots, leader epochs and checkpoints, and last, if all of that went well,
   * `.kafka_cleanshutdown` with the broker epoch. Without an epoch the next start recovers. Idempotent.
   */
  close(brokerEpoch: number | undefined): Promise<void> {
    this.#closing ??= this.#close(brokerEpoch);
    return this.#closing;
  }

  async #close(brokerEpoch: number | undefined): Promise<void> {
    this.#timers.close();
    const deleted = this.#deleted.close();
    await this.#cleaner.close();
    this.commitTick();
    while (this.#background.size > 0) await Promise.all(this.#background);
    await this.#retention.close().catch(() => {});
    let clean = this.#failures.size === 0;
    const attempt = async (fields: object, what: string, work: () => Promise<void>) => {
      try {
        await work();
      } catch (error) {
        clean = false;
        this.#logger.error({ ...fields, reason: (error as Error).message }, `${what} failed in the stop`);
      }
    };
    const slots = [...this.#slots.values()];
    await forEachConcurrently(slots, async (slot) => {
      const { topic, index } = slot.partition;
      await attempt({ topic, partition: index }, 'writing a partition', () => this.#finish(slot));
    });
    for (const file of ROOT_CHECKPOINTS)
      await attempt({ file }, 'writing a checkpoint', () => this.#checkpoints.write(file));
    await forEachConcurrently([...slots.map((slot) => slot.partition), ...deleted], async (partition) => {
      const { topic, index, log } = partition;
      this.#options.committer.unregister(log);
      const close = () => log.close().finally(() => noteFailedFlush(this.#files, log));
      await attempt({ topic, partition: index }, 'closing a partition', close);
    });
    if (!clean || brokerEpoch === undefined) return;
    await this.#files.writeAtomic(
      `${this.#options.dataDir}/${CLEAN_SHUTDOWN_FILE}`,
      cleanShutdownText(brokerEpoch),
    );
  }

  /** Puts on disk all that the next start would otherwise have to find out. */
  async #finish(slot: Slot): Promise<void> {
    const { partition, snapshots } = slot;
    const { log, producers, epochs } = partition;
    slot.flushTimer?.cancel();
    if (log.offline !== undefined) throw log.offline;
    if (log.flushedOffset < log.writtenOffset) await log.flush();
    partition.settle(undefined);
    await partition.aborted.save(this.#files, log);
    const newest = snapshots.offsets[snapshots.offsets.length - 1] ?? 0;
    if (log.writtenOffset > newest)
      await snapshots.write(log.dir, log.writtenOffset, encodeSnapshot(producers));
    if (epochs.dirty) await this.#files.writeAtomic(`${log.dir}/${LEADER_EPOCH_FILE}`, epochs.text());
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new BroadsheetError('CLOSED', 'the log manager is closed');
  }

  /** Never fails: an error is logged. */
  #inBackground(what: string, work: Promise<void>): Promise<void> {
    const tracked = work
      .catch((error) => this.#logger.error({ reason: (error as Error).message }, `failed to ${what}`))
      .finally(() => this.#background.delete(tracked));
    this.#background.add(tracked);
    return tracked;
  }
}

function asBroadsheetError(error: unknown): BroadsheetError {
  if (error instanceof BroadsheetError) return error;
  return new BroadsheetError('IO', (error as Error).message, 0, { cause: error });
}
