/** Backups of a running broker: in this process, and for another one by way of the control socket. */
import { forEachConcurrently } from '../log/concurrency.ts';
import type { CopyReport } from '../log/copy-report.ts';
import type { Files } from '../log/log.ts';
import { CUT_VERSION, cutPartition, type DirectoryCut, readRecoveryPoints } from '../log/log-cut.ts';
import type { LogManager } from '../log/log-manager.ts';
import type { ClusterMetadata } from '../metadata/cluster-metadata.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';

export interface HeldCut {
  readonly cut: DirectoryCut;
  /** Lets go of the files. */
  release(): void;
}

export class Backups {
  readonly #dataDir: string;
  readonly #files: Files;
  readonly #metadata: ClusterMetadata;
  readonly #logs: LogManager;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();

  constructor(dataDir: string, files: Files, metadata: ClusterMetadata, logs: LogManager, log: Logger) {
    this.#dataDir = dataDir;
    this.#files = files;
    this.#metadata = metadata;
    this.#logs = logs;
    this.#log = log;
  }

  /** Says how far every log goes, all at one moment; until it is released no file that this names is renamed or removed. */
  async hold(): Promise<HeldCut> {
    this.#closing.signal.throwIfAborted();
    const dataDir = this.#dataDir;
    // The less lies behind the recovery points, the less is copied instead of linked.
    await forEachConcurrently(this.#logs.partitions(), async ({ log }) => {
      // One that fails is offline from then on, and copied as far as it can be read.
      if (log.flushedOffset < log.writtenOffset && log.offline === undefined)
        await log.flush().catch(() => {});
    });
    await this.#logs.checkpointRecoveryPoints();
    const recoveryPoints = await readRecoveryPoints(this.#files, dataDir);
    const releases = await Promise.all([this.#logs.hold.hold(), this.#metadata.hold()]);
    const release = () => {
      for (const each of releases) each();
    };
    try {
      const cut = this.#cut(recoveryPoints);
      this.#log.info(
        { partitions: cut.partitions.length },
        'a backup begins: no segment is deleted until it has ended',
      );
      return {
        cut,
        release: () => {
          release();
          this.#log.info({}, 'a backup has ended');
        },
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** In one turn of the loop: it is of one moment. */
  #cut(recoveryPoints: string): DirectoryCut {
    const { image } = this.#metadata;
    const partitions = this.#logs.partitions().filter(({ topicId }) => image.topicsById.has(topicId));
    return {
      ...{ version: CUT_VERSION, dataDir: this.#dataDir, recoveryPoints },
      metadata: this.#metadata.cut(),
      partitions: partitions.map(cutPartition),
    };
  }

  /** See Broker.backup in index.ts. */
  backup(target: string, signal?: AbortSignal): Promise<CopyReport> {
    const running = this.#backup(target, signal).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }

  async #backup(target: string, given: AbortSignal | undefined): Promise<CopyReport> {
    const signals = [this.#closing.signal, ...(given === undefined ? [] : [given])];
    // Loaded when it is needed, which is seldom.
    const { copyCut } = await import('../log/backup.ts');
    const { cut, release } = await this.hold();
    try {
      return await copyCut(cut, target, { signals });
    } finally {
      release();
    }
  }

  /** Ends what runs in this process; what it made is removed. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort(new BroadsheetError('CLOSED', 'the broker stopped during the backup'));
    await Promise.allSettled(this.#running);
  }
}
