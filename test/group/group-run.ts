/** A classic group without a broker: a clock that a test moves, and a log that answers when the test says so. */
import { ClassicGroup } from '../../src/group/classic-group.ts';
import type { JoinAnswer, SyncAnswer } from '../../src/group/classic-member.ts';
import type { ClassicHost, ClassicSettings, JoinRequest } from '../../src/group/classic-types.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';

export class GroupRun implements ClassicHost {
  readonly clock = new VirtualClock();
  readonly settings: ClassicSettings;
  readonly group: ClassicGroup;
  /** Appends that are not done yet. */
  readonly pending: ((code: number) => void)[] = [];
  /** What each append said, by member id. */
  readonly persisted: ReadonlyMap<string, Uint8Array>[] = [];
  #ids = 0;

  constructor(settings: Partial<ClassicSettings> = {}) {
    this.settings = { maxSize: 1000, initialRebalanceDelayMs: 0, ...settings };
    this.group = new ClassicGroup('g', this);
  }

  newMemberId(prefix: string): string {
    return `${prefix}-${this.#ids++}`;
  }

  persist(_: ClassicGroup, assignments: ReadonlyMap<string, Uint8Array>, done: (code: number) => void): void {
    this.persisted.push(assignments);
    this.pending.push(done);
  }

  debug(): void {}

  /** Ends the appends that wait. */
  written(code = 0): void {
    for (const done of this.pending.splice(0)) done(code);
  }

  join(memberId = '', options: Partial<JoinRequest> = {}): Waiting<JoinAnswer> {
    const waiting = new Waiting<JoinAnswer>();
    waiting.abandon = this.group.join(
      {
        memberId,
        groupInstanceId: null,
        clientId: 'c',
        clientHost: '/h',
        protocolType: 'consumer',
        protocols: protocols('a'),
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 60_000,
        reason: null,
        requireKnownMemberId: false,
        supportsSkippingAssignment: true,
        ...options,
      },
      waiting.respond,
    );
    return waiting;
  }

  sync(
    memberId: string,
    generationId: number,
    assignments: Record<string, string> = {},
    groupInstanceId: string | null = null,
  ): Waiting<SyncAnswer> {
    const waiting = new Waiting<SyncAnswer>();
    const given = new Map(Object.entries(assignments).map(([id, text]) => [id, Buffer.from(text)]));
    this.group.sync(
      {
        memberId,
        groupInstanceId,
        generationId,
        protocolType: null,
        protocolName: null,
        assignments: given,
      },
      waiting.respond,
    );
    return waiting;
  }

  /** A stable group of so many members; their ids, the leader first. */
  stable(count: number, options: Partial<JoinRequest> = {}): string[] {
    const first = this.join('', options).answer!;
    const others = Array.from({ length: count - 1 }, () => this.join('', options));
    if (count > 1) this.join(first.memberId, options);
    const ids = [first.memberId, ...others.map((other) => other.answer!.memberId)];
    const { generationId } = this.group;
    for (const id of ids) this.sync(id, generationId, Object.fromEntries(ids.map((of) => [of, `for ${of}`])));
    this.written();
    return ids;
  }
}

export class Waiting<T> {
  answer: T | undefined;
  answers = 0;
  abandon: (() => void) | undefined;

  readonly respond = (answer: T): void => {
    this.answer = answer;
    this.answers++;
  };
}

export function protocols(...names: string[]) {
  return names.map((name) => ({ name, metadata: Buffer.from(`of ${name}`) }));
}
