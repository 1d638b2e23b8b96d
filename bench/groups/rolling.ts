/** Suite `groups`: one group, all of whose members are restarted one after the other: how long until all partitions are read
 * again, by members that agree, in both protocols. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Target, withTopic } from '../broker-load.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';
import { ClassicMember, ConsumerMember, type Member, type MemberOf } from './member.ts';
import { withPeers } from './peers.ts';

const PARTITIONS_PER_MEMBER = 5;
/** From the restart of one member to that of the next. */
const PACE_MS = 25;
/** Nothing settles after so long: ms. */
const LONGEST_MS = 300_000;

type MemberClass = new (of: MemberOf) => Member;

class Gathering {
  readonly #of: MemberOf;
  readonly #kind: MemberClass;
  readonly #members: Member[] = [];
  #stable: (() => void) | undefined;
  #fail: ((error: Error) => void) | undefined;
  #failure: Error | undefined;

  constructor(of: Omit<MemberOf, 'changed' | 'failed'>, kind: MemberClass) {
    this.#kind = kind;
    this.#of = {
      ...of,
      changed: () => this.#check(),
      failed: (error) => {
        this.#failure ??= error;
        this.#fail?.(error);
      },
    };
  }

  get #isStable(): boolean {
    let count = 0;
    const [first] = this.#members;
    for (const { epoch, owned } of this.#members) {
      if (epoch === 0 || epoch !== first!.epoch) return false;
      count += owned.length;
    }
    if (count !== this.#of.partitions) return false;
    return new Set(this.#members.flatMap(({ owned }) => owned)).size === count;
  }

  #check(): void {
    if (this.#stable !== undefined && this.#isStable) this.#stable();
  }

  async #untilStable(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve, reject) => {
      this.#stable = resolve;
      this.#fail = reject;
      timer = setTimeout(() => reject(new Error('the group does not settle')), LONGEST_MS);
      this.#check();
    }).finally(() => {
      clearTimeout(timer);
      this.#stable = undefined;
      this.#fail = undefined;
    });
  }

  async #add(index: number): Promise<void> {
    const member = new this.#kind(this.#of);
    this.#members[index] = member;
    await member.start();
  }

  /** Seconds until `count` members that come at once have shared out all. */
  async form(count: number): Promise<number> {
    const began = performance.now();
    await Promise.all(Array.from({ length: count }, (_, index) => this.#add(index)));
    await this.#untilStable();
    return (performance.now() - began) / 1000;
  }

  /** Each leaves, and another one joins: seconds in all, and since the last one. */
  async restartAll(): Promise<readonly [all: number, settling: number]> {
    const began = performance.now();
    let last = began;
    for (let index = 0; index < this.#members.length; index++) {
      last = performance.now();
      await this.#members[index]!.stop();
      await this.#add(index);
      const rest = PACE_MS - (performance.now() - last);
      if (rest > 0 && index < this.#members.length - 1) await sleep(rest);
    }
    await this.#untilStable();
    const now = performance.now();
    return [(now - began) / 1000, (now - last) / 1000];
  }

  async end(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.stop()));
  }
}

const KINDS = { classic: ClassicMember, consumer: ConsumerMember };

let groups = 0;

async function measure(
  target: Target,
  topic: string,
  partitions: number,
  members: number,
): Promise<Record<string, Cost>> {
  const costs: Record<string, Cost> = {};
  for (const [protocol, kind] of Object.entries(KINDS)) {
    const groupId = `bench-group-${++groups}`;
    const gathering = new Gathering({ port: target.port, groupId, topic, partitions }, kind);
    const seconds = (value: number): Cost => ({ value, unit: 's' });
    costs[`${protocol}: all join at once`] = seconds(await gathering.form(members));
    const [all, settling] = await gathering.restartAll();
    costs[`${protocol}: rolling restart, first to stable`] = seconds(all);
    costs[`${protocol}: rolling restart, last to stable`] = seconds(settling);
    await gathering.end();
  }
  return costs;
}

const EXPECTED = {
  'classic: rolling restart, first to stable': 1,
  'classic: rolling restart, last to stable': 1,
  'consumer: rolling restart, last to stable': 10,
};

/** Against Apache Kafka; against another broadsheet where `peer` says so. */
export function groupRestarts(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const { members, rounds } = scale;
  const partitions = members * PARTITIONS_PER_MEMBER;
  return withPeers(peer, (ours, theirs) =>
    withTopic(ours, partitions, (own) =>
      withTopic(theirs, partitions, async (other) => {
        // Whoever compiles while running has compiled by the time it counts.
        await measure(ours, own, partitions, Math.ceil(members / 10));
        await measure(theirs, other, partitions, Math.ceil(members / 10));
        return compareCosts(
          rounds,
          () => measure(ours, own, partitions, members),
          () => measure(theirs, other, partitions, members),
          EXPECTED,
        );
      }),
    ),
  );
}
