/** A client whose group knows epochs (KIP-848, KIP-1071) and that behaves as Kafka's do, in a world where answers get lost. What
 * it owns are keys; what it sends is up to its protocol. */
import { KafkaError } from '../../src/protocol/errors.ts';
import { type GroupLife, type LifeClient, REBALANCE_MS, SESSION_MS, TURN_MS } from './group-life.ts';

const RETRY_MS = 1_000;

export interface EpochAnswer {
  readonly errorCode: number;
  readonly memberEpoch: number;
  readonly heartbeatIntervalMs: number;
  /** Keys; null: as told last. */
  readonly told: Set<string> | null;
}

export interface EpochOptions {
  readonly instanceId?: string | null;
  /** Says that it has given up partitions before it has: what a model must catch. */
  readonly hasty?: boolean;
}

export abstract class EpochClient implements LifeClient {
  protected readonly life: GroupLife;
  readonly #options: EpochOptions;
  readonly name: string;
  readonly instanceId: string | null;
  readonly memberId: string;
  alive = true;
  #owned = new Set<string>();
  /** What it was told to own; reached when what has to go is gone. */
  #told = new Set<string>();
  /** When it is done with what has to go. */
  #revokedAt: number | undefined;
  /** It must be done by then, or not own anything any more. */
  #revokedBy = Number.POSITIVE_INFINITY;
  #epoch = 0;
  #intervalMs = 0;
  #nextAt = 0;
  /** When it sent what was answered last. */
  #heardOf = Number.POSITIVE_INFINITY;
  #isWaiting = false;
  /** Tells all of itself next time. */
  #full = true;
  #turn = 0;
  #pausedUntil = 0;
  readonly #lost: { readonly key: string; readonly epoch: number }[] = [];

  constructor(life: GroupLife, kind: string, options: EpochOptions) {
    this.life = life;
    this.#options = options;
    const id = life.newId();
    this.name = `${kind}${id}`;
    this.memberId = `member${id}`;
    this.instanceId = options.instanceId ?? null;
  }

  get owned(): ReadonlySet<string> {
    return this.#owned;
  }

  /** What nobody else may own at the same time. */
  get claims(): ReadonlySet<string> {
    return this.#owned;
  }

  abstract get subscription(): readonly string[];

  /** The member's epoch and the group's, as the coordinator has them. */
  protected abstract epochs(): readonly [member: number | undefined, group: number | undefined];

  /** Sends a heartbeat with what it owns; `full`: with all that there is to say. `isWanted` is false once the connection that
   * it was sent on is gone. */
  protected abstract send(
    memberEpoch: number,
    full: boolean,
    owned: ReadonlySet<string>,
    respond: (answer: EpochAnswer) => void,
    isWanted: () => boolean,
  ): void;

  get unrest(): string | undefined {
    const [epoch, groupEpoch] = this.epochs();
    if (this.#epoch === 0 || this.#epoch !== epoch || epoch !== groupEpoch) {
      return `is in epoch ${this.#epoch}, for the group ${epoch} of ${groupEpoch}`;
    }
    if (this.#revokedAt !== undefined) return 'has something to give up';
    return undefined;
  }

  step(): void {
    const now = this.life.clock.now();
    if (now < this.#pausedUntil) {
      // A thread of its own sees that the session is over, or that the user takes too long.
      this.#watch(now);
      return;
    }
    this.#watch(now);
    if (this.#revokedAt !== undefined && now >= this.#revokedAt) {
      this.#own(this.#told);
      this.#nextAt = now;
    }
    if (!this.#isWaiting && now >= this.#nextAt) this.#heartbeat(now);
  }

  /** Before the coordinator does. */
  #watch(now: number): void {
    const until = now + TURN_MS;
    if (until >= this.#heardOf + SESSION_MS || until >= this.#revokedBy) this.#fenced();
  }

  #own(keys: ReadonlySet<string>): void {
    for (const key of this.#owned) if (!keys.has(key)) this.#lost.push({ key, epoch: this.#epoch });
    this.#owned = new Set(keys);
    this.#revokedAt = undefined;
    this.#revokedBy = Number.POSITIVE_INFINITY;
  }

  /** Out of the group, for all it knows. */
  #fenced(): void {
    this.life.fenced++;
    this.#turn++;
    this.#isWaiting = false;
    this.#told = new Set();
    this.#own(this.#told);
    this.#epoch = 0;
    this.#full = true;
    this.#heardOf = Number.POSITIVE_INFINITY;
    this.#nextAt = this.life.clock.now();
  }

  disconnected(): void {
    if (!this.#isWaiting) return;
    this.#turn++;
    this.#isWaiting = false;
    this.#full = true;
    this.#nextAt = this.life.clock.now();
  }

  pause(ms: number): void {
    this.#pausedUntil = this.life.clock.now() + ms;
  }

  die(): void {
    this.#turn++;
    this.alive = false;
    this.#owned = new Set();
  }

  leave(): void {
    // A static member that leaves for a while is one of two that do.
    const epoch = this.instanceId !== null && this.life.random(2) === 0 ? -2 : -1;
    if (this.#epoch > 0) {
      this.send(
        epoch,
        false,
        this.#owned,
        () => {},
        () => true,
      );
    }
    this.die();
  }

  commit(): void {
    const keys = [...this.#owned];
    const key = keys[this.life.random(keys.length)];
    if (key !== undefined) this.life.commit(this, this.#epoch, key, false);
  }

  commitLate(): void {
    const lost = this.#lost[this.life.random(this.#lost.length)];
    if (lost !== undefined && !this.#owned.has(lost.key)) this.life.commit(this, lost.epoch, lost.key, true);
  }

  #heartbeat(now: number): void {
    this.#isWaiting = true;
    this.#nextAt = Number.POSITIVE_INFINITY;
    const turn = ++this.#turn;
    const owned = this.#options.hasty === true ? this.#told : this.#owned;
    const isWanted = () => turn === this.#turn;
    const respond = (answer: EpochAnswer) => {
      if (turn !== this.#turn) return;
      this.#isWaiting = false;
      const { errorCode } = answer;
      if (errorCode !== KafkaError.NONE) {
        this.#refused(errorCode);
        return;
      }
      this.#heardOf = now;
      this.#full = false;
      this.#epoch = answer.memberEpoch;
      this.#intervalMs = answer.heartbeatIntervalMs;
      this.#nextAt = this.life.clock.now() + this.#intervalMs;
      if (answer.told !== null) this.#take(answer.told, now);
    };
    this.send(this.#epoch, this.#full || this.#epoch === 0, owned, respond, isWanted);
  }

  #take(told: Set<string>, sentAt: number): void {
    this.#told = told;
    const goes = [...this.#owned].some((key) => !told.has(key));
    if (!goes) {
      this.#own(told);
      return;
    }
    if (this.#revokedAt !== undefined) return;
    // Some never get done.
    const takes = this.life.random(50) === 0 ? 10 * REBALANCE_MS : this.life.random(2_000);
    this.#revokedAt = this.life.clock.now() + takes;
    this.#revokedBy = sentAt + REBALANCE_MS;
  }

  #refused(errorCode: number): void {
    const now = this.life.clock.now();
    this.#full = true;
    switch (errorCode) {
      case KafkaError.UNKNOWN_MEMBER_ID:
      case KafkaError.FENCED_MEMBER_EPOCH:
      case KafkaError.GROUP_ID_NOT_FOUND:
        this.#fenced();
        return;
      case KafkaError.FENCED_INSTANCE_ID:
        this.die();
        return;
      default:
        this.#nextAt = now + RETRY_MS;
    }
  }
}
