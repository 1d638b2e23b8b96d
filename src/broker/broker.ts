/**
 * The composition root: puts a broker together from its parts, starts them in order and stops them in reverse.
 *
 * Start: lock, metadata log, sockets bound, the lead taken, partitions, groups, and only then are connections accepted. A taken
 * port or a foreign directory ends the start before anything is changed.
 */
import type { BrokerConfig } from '../config/broker-config.ts';
import { validateTopicConfig } from '../config/topic-config.ts';
import { OFFSETS_TOPIC } from '../group/group-log.ts';
import type { SegmentCleaner } from '../log/cleaner-thread.ts';
import { LogCommitter } from '../log/committer.ts';
import type { Compaction } from '../log/compaction.ts';
import type { CopyReport } from '../log/copy-report.ts';
import { DiskReserve } from '../log/disk-reserve.ts';
import type { LogEngine } from '../log/log.ts';
import { LogManager } from '../log/log-manager.ts';
import { logManagerSettings } from '../log/log-settings.ts';
import type { Partition } from '../log/partition.ts';
import { ClusterMetadata } from '../metadata/cluster-metadata.ts';
import { SERVED_FEATURES, TRANSACTION_VERSION } from '../metadata/features.ts';
import type { ClusterImage } from '../metadata/image.ts';
import { KafkaError } from '../protocol/errors.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import type { Clock } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { Backups } from './backups.ts';
import { ClusterAdmin } from './cluster-admin.ts';
import { Configs } from './configs.ts';
import { Connection, type ConnectionHost } from './connection.ts';
import type { BrokerContext, FeatureLevels } from './context.ts';
import { ControlSocket } from './control-socket.ts';
import { DelayedFetches } from './delayed-fetch.ts';
import { applyDynamicConfig, TopicConfigs } from './dynamic-config.ts';
import { FetchSessionCache } from './fetch-session-cache.ts';
import { describeBadFrame } from './garbage.ts';
import { openGroups } from './groups.ts';
import { HANDLERS } from './handlers/index.ts';
import { type Endpoint, Listeners } from './listeners.ts';
import { Loggers } from './loggers.ts';
import { Tick } from './tick.ts';
import { describePartition, Topics } from './topics.ts';
import { openTransactions, TRANSACTION_TOPIC } from './transactions.ts';
import type { CloseReason, ConnectionId, Peer, Transport, TransportHandler } from './transport.ts';

/** Most partitions of all topics together. */
const MAX_PARTITIONS = 200_000;
/** How long a stop waits for answers to leave, ms. */
const DRAIN_MS = 1000;

export interface BrokerParts {
  /** Absolute path. */
  readonly dataDir: string;
  readonly config: BrokerConfig;
  readonly engine: LogEngine;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Logger;
  /** Default: a thread. */
  readonly cleaner?: SegmentCleaner;
  /** Whether commands on this machine may ask by way of the directory. Default: no. */
  readonly control?: boolean;
  /** Whether a later broker may start in the directory. Default: yes. */
  readonly startsAgain?: boolean;
}

type Undo = () => Promise<void> | void;

export class BrokerInstance implements TransportHandler {
  readonly #parts: BrokerParts;
  readonly #undo: Undo[] = [];
  readonly #connections = new Map<ConnectionId, Connection>();
  readonly #tick: Tick;
  readonly #fetches: DelayedFetches;
  readonly #listeners: Listeners;
  readonly #loggers: Loggers;
  #host: ConnectionHost | undefined;
  #logs: LogManager | undefined;
  #backups: Backups | undefined;
  #closing: Promise<void> | undefined;

  /** Throws LOCKED, ADDRESS_IN_USE, CORRUPT, INVALID_CONFIG, IO ...; nothing stays open then. */
  static async start(parts: BrokerParts): Promise<BrokerInstance> {
    const broker = new BrokerInstance(parts);
    try {
      await broker.#start();
      return broker;
    } catch (error) {
      await broker.close();
      throw error;
    }
  }

  private constructor(parts: BrokerParts) {
    this.#loggers = new Loggers(parts.log);
    const { transport, config, clock } = parts;
    const log = this.#loggers.get('broker');
    this.#parts = { ...parts, log };
    this.#tick = new Tick(
      [() => (this.#logs?.commitTick().length ?? 0) > 0, () => this.#fetches.wakeReady()],
      () => transport.flush(),
      (error) => log.error({ error: String((error as Error).stack ?? error) }, 'the end of a tick failed'),
      () => clock.monotonic(),
    );
    this.#fetches = new DelayedFetches(clock, () => this.#tick.request());
    this.#listeners = new Listeners(config, transport, this.#loggers.get('network'));
  }

  get dataDir(): string {
    return this.#parts.dataDir;
  }

  /** Where each listener can be reached from this machine. */
  get endpoints(): (Endpoint & { readonly name: string })[] {
    return this.#listeners.endpoints;
  }

  async #start(): Promise<void> {
    const { dataDir, config, engine, transport, clock, log } = this.#parts;
    await engine.files.mkdir(dataDir);
    const disk = new DiskReserve({
      ...{ dataDir, files: engine.files, clock, logger: this.#loggers.get('logs') },
      reserveBytes: config.number('log.disk.reserve.bytes'),
      keepsBallast: this.#parts.startsAgain ?? true,
    });
    const lock = await disk.first(() => engine.files.lock(`${dataDir}/.lock`, `${process.pid}\n`));
    this.#undo.push(
      () => lock.release(),
      () => disk.close(),
    );
    await disk.open();
    const committer = new LogCommitter(engine);
    const metadata = await ClusterMetadata.open({
      dataDir,
      engine,
      committer,
      nodeId: config.nodeId,
      defaultPartitions: config.number('num.partitions'),
      maxPartitions: MAX_PARTITIONS,
      validateTopicConfig: (values) => void validateTopicConfig(values, config),
      now: clock.now(),
      log: {
        segmentBytes: config.number('metadata.log.segment.bytes'),
        segmentMs: config.number('metadata.log.segment.ms'),
      },
      logger: log,
    });
    this.#undo.push(() => metadata.close());
    await this.#listeners.open(config);
    await metadata.activate(this.endpoints, clock.now());
    await metadata.keepSnapshots({
      clock,
      logger: this.#loggers.get('controller'),
      maxRecordBytes: config.number('metadata.log.max.record.bytes.between.snapshots'),
      maxIntervalMs: config.number('metadata.log.max.snapshot.interval.ms'),
      retentionBytes: config.number('metadata.max.retention.bytes'),
      retentionMs: config.number('metadata.max.retention.ms'),
      checkIntervalMs: config.number('log.retention.check.interval.ms'),
      recoveryPointMs: config.number('log.flush.offset.checkpoint.interval.ms'),
    });
    applyDynamicConfig(config, metadata.image, metadata.nodeId, log);
    const topicConfigs = new TopicConfigs(metadata.image, config, this.#loggers.get('logs'));
    const logs = await LogManager.open(
      {
        dataDir,
        engine,
        committer,
        clock,
        logger: this.#loggers.get('logs'),
        settings: logManagerSettings(config),
        cleaner: this.#parts.cleaner,
        onActivity: () => this.#tick.request(),
        onNoSpace: (error) => disk.onNoSpace(error),
      },
      describePartition(metadata, topicConfigs),
    );
    this.#logs = logs;
    this.#undo.push(
      () => logs.close(metadata.brokerEpoch),
      // Where hardly anything is left, what the stop writes gets the ballast's place.
      () => disk.look(),
    );
    const topics = new Topics({ metadata, logs, config, topicConfigs, clock, log });
    const configs = new Configs({
      ...{ dataDir, metadata, logs, topics, topicConfigs, config, clock },
      loggers: this.#loggers,
      log: this.#loggers.get('controller'),
    });
    this.#undo.push(topicConfigs.follow(logs));
    await this.#makeMissing(metadata.image, logs, topics);
    const groups = await openGroups({
      config,
      image: metadata.image,
      logs,
      topics,
      clock,
      log: this.#loggers.get('groups'),
      requestTick: () => this.#tick.request(),
    });
    const producerIds = metadata.producerIds(() => clock.now());
    const { transactions, markers } = await openTransactions({
      ...{ config, image: metadata.image, logs, topics, groups, producerIds, clock },
      log: this.#loggers.get('transactions'),
      transactionVersion: () => metadata.servedFeatures.get(TRANSACTION_VERSION) ?? 0,
      requestTick: () => this.#tick.request(),
    });
    topics.onDeleted = (name) => {
      groups.topicDeleted(name, name === OFFSETS_TOPIC);
      if (name === TRANSACTION_TOPIC) transactions.clear();
    };
    const coordinators = { groups, transactions, markers, producerIds };
    this.#host = this.#connectionHost(this.#context(metadata, logs, topics, configs, disk, coordinators));
    this.#undo.push(
      () => transport.close(DRAIN_MS),
      () => this.#stopWaiting(topics, logs),
      () => groups.close(),
      () => transactions.close(),
      () => this.#listeners.close(),
    );
    this.#closeIdleConnections();
    const backups = new Backups(dataDir, engine.files, metadata, logs, this.#loggers.get('broker'));
    this.#backups = backups;
    this.#undo.push(() => backups.close());
    if (this.#parts.control === true) {
      const control = await ControlSocket.open(dataDir, () => backups.hold(), this.#loggers.get('broker'));
      this.#undo.push(() => control.close());
    }
    transport.start(this);
    const { endpoints } = this;
    const engines = { engine: engine.name, transport: transport.name };
    log.info(
      { dataDir, clusterId: metadata.clusterId, nodeId: metadata.nodeId, endpoints, ...engines },
      'started',
    );
  }

  /** Folders of partitions that the metadata knows and the directory lacks: a kill came between the two. */
  async #makeMissing(image: ClusterImage, logs: LogManager, topics: Topics): Promise<void> {
    for (const topic of image.topicsByName.values()) {
      const missing = [...topic.partitions.keys()].filter(
        (index) => logs.partition(topic.name, index) === undefined && !logs.failure(topic.name, index),
      );
      if (missing.length > 0) await topics.makePartitions(topic, missing);
    }
  }

  #context(
    metadata: ClusterMetadata,
    logs: LogManager,
    topics: Topics,
    configs: Configs,
    disk: DiskReserve,
    coordinators: Pick<BrokerContext, 'groups' | 'transactions' | 'markers' | 'producerIds'>,
  ): BrokerContext {
    const { dataDir, engine, config, clock } = this.#parts;
    return {
      clusterId: metadata.clusterId,
      dataDir,
      nodeId: metadata.nodeId,
      rack: config.textIfSet('broker.rack') ?? null,
      config,
      image: metadata.image,
      topics,
      configs,
      disk,
      ...coordinators,
      cluster: new ClusterAdmin(metadata, clock),
      listeners: this.#listeners,
      fetches: this.#fetches,
      sessions: new FetchSessionCache({
        slots: () => config.number('max.incremental.fetch.session.cache.slots'),
        monotonic: () => clock.monotonic(),
      }),
      handlers: HANDLERS,
      clock,
      log: this.#loggers.get('requests'),
      partition: (topic, index): Partition | undefined => logs.partition(topic, index),
      missingCode: (topic, index) =>
        logs.failure(topic, index) === undefined
          ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
          : KafkaError.KAFKA_STORAGE_ERROR,
      partitionById: (topicId, index): Partition | undefined => logs.partitionById(topicId, index),
      partitions: () => logs.partitions(),
      checkpointLogStarts: () => logs.checkpointLogStarts(),
      inspector: engine.inspector,
      space: () => engine.files.space(dataDir),
      features: (): FeatureLevels => ({
        supportedFeatures: SERVED_FEATURES.map((feature) => ({
          name: feature.name,
          minVersion: feature.minSupportedVersion,
          maxVersion: feature.maxSupportedVersion,
        })),
        finalizedFeatures: [...metadata.servedFeatures].map(([name, level]) => ({
          name,
          minVersionLevel: level,
          maxVersionLevel: level,
        })),
        finalizedFeaturesEpoch: metadata.quorum.logEndOffset - 1,
      }),
    };
  }

  #connectionHost(context: BrokerContext): ConnectionHost {
    const { transport, config } = this.#parts;
    return {
      transport,
      handlers: HANDLERS,
      context,
      log: this.#loggers.get('network'),
      reader: new Reader(),
      writer: new Writer(64 * 1024),
      maxWaitingRequests: config.number('connection.max.queued.requests'),
      maxWaitingBytes: config.number('connection.max.queued.bytes'),
      requestTickEnd: () => this.#tick.request(),
      passIsOver: () => this.#tick.passIsOver(),
      postpone: (resume) => this.#tick.postpone(resume),
    };
  }

  /** Again and again, so that a connection is closed at most a tenth later than connections.max.idle.ms says. */
  #closeIdleConnections(): void {
    const { config, clock, transport } = this.#parts;
    const idleMs = config.number('connections.max.idle.ms');
    if (idleMs < 0) return;
    const again = () => {
      if (this.#closing !== undefined) return;
      transport.closeIdle(idleMs);
      timer = clock.setTimer(Math.max(idleMs / 10, 10), again);
    };
    let timer = clock.setTimer(Math.max(idleMs / 10, 10), again);
    this.#undo.push(() => timer.cancel());
  }

  // --- what the transport says ---

  onAccept(id: ConnectionId, peer: Peer): void {
    if (this.#host === undefined || this.#closing !== undefined || !this.#listeners.admit(id, peer)) {
      this.#parts.transport.closeConnection(id, false);
      return;
    }
    this.#connections.set(id, new Connection(id, peer, this.#host));
  }

  onFrame(id: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    const connection = this.#connections.get(id);
    if (connection === undefined) return;
    this.#tick.pass();
    try {
      connection.onFrame(bytes, start, end);
    } catch (error) {
      this.#parts.log.error(
        { peer: connection.peerName, error: String((error as Error).stack ?? error) },
        `closing the connection of ${connection.peerName}: an error of this broker`,
      );
      connection.close();
    }
  }

  onBadFrame(id: ConnectionId, bytes: Uint8Array, start: number, end: number): void {
    const limit = this.#parts.config.number('socket.request.max.bytes');
    this.#connections.get(id)?.refuse(describeBadFrame(bytes, start, end, limit));
  }

  onDrained(id: ConnectionId): void {
    this.#connections.get(id)?.onDrained();
  }

  onEnd(id: ConnectionId): void {
    this.#connections.get(id)?.onEnd();
  }

  onClose(id: ConnectionId, reason: CloseReason): void {
    this.#listeners.release(id);
    const connection = this.#connections.get(id);
    if (connection === undefined) return;
    this.#connections.delete(id);
    connection.onClose();
    if (this.#closing === undefined) this.#host?.context.groups.connectionClosed(id);
    if (reason === 'send-overflow' || reason === 'error') {
      this.#parts.log.warn(
        { peer: connection.peerName, reason },
        `the connection of ${connection.peerName} was closed: ${reason}`,
      );
    }
  }

  onAcceptFailed(listener: number, error: BroadsheetError): void {
    const name = this.#listeners.name(listener);
    this.#parts.log.error({ listener: name, reason: error.message }, 'connections are not accepted');
  }

  onTickEnd(): void {
    this.#tick.end();
  }

  /** Compacts partitions now; see Broker.compact in index.ts. */
  async compact(topics?: readonly string[]): Promise<Compaction[]> {
    const logs = this.#logs;
    if (logs === undefined || this.#closing !== undefined)
      throw new BroadsheetError('CLOSED', 'the broker is closed');
    const all = logs.partitions();
    for (const name of topics ?? []) {
      if (!all.some(({ topic }) => topic === name))
        throw new BroadsheetError('INVALID_ARGUMENT', `there is no topic ${name}`);
    }
    const chosen = all.filter(({ topic, config }) =>
      topics === undefined ? config.cleanupPolicy.includes('compact') : topics.includes(topic),
    );
    const done: Compaction[] = [];
    for (const partition of chosen) if (!partition.deleted) done.push(await logs.compact(partition));
    return done;
  }

  /** See Broker.backup in index.ts. */
  backup(target: string, signal?: AbortSignal): Promise<CopyReport> {
    if (this.#backups === undefined || this.#closing !== undefined)
      return Promise.reject(new BroadsheetError('CLOSED', 'the broker is closed'));
    return this.#backups.backup(target, signal);
  }

  // --- stopping ---

  /** What was begun is written, flushed and answered; fetches that wait end without an answer. Nothing new is read: what
   * a client sent and has no answer to was not looked at, so that it may send it again to the next broker. */
  async #stopWaiting(topics: Topics, logs: LogManager): Promise<void> {
    const { transport } = this.#parts;
    for (const id of this.#connections.keys()) transport.setReading(id, false);
    this.#fetches.close();
    this.#tick.end();
    await topics.idle();
    await logs.settled();
    this.#tick.end();
    transport.flush();
  }

  /** Stops cleanly: answers leave, logs are flushed, checkpoints written, and the lock is given back last. Idempotent.
   * Rejects with the first error; the rest is stopped all the same. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const errors: unknown[] = [];
    const { transport, engine } = this.#parts;
    this.#undo.unshift(
      () => engine.close(),
      () => transport.close(0),
      () => this.#tick.close(),
    );
    for (let undo = this.#undo.pop(); undo !== undefined; undo = this.#undo.pop()) {
      try {
        await undo();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
