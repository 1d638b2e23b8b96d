/** Properties of both assignors, over seeded random groups that live on: BROADSHEET_SEED=n runs one. */
import { describe, expect, it, vi } from 'vitest';
import type { Assignor, AssignorMember, MemberAssignment } from '../../src/group/assignor.ts';
import { rangeAssignor } from '../../src/group/assignor-range.ts';
import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { type Group, moved, owners, RandomGroup } from './assignor-groups.ts';

const only = process.env.BROADSHEET_SEED;
const SEEDS =
  only === undefined ? Array.from({ length: scaled(50, 3_000) }, (_, n) => n + 1) : [Number(only)];

function assign(assignor: Assignor, { members, topics }: Group): Map<string, MemberAssignment> {
  return assignor.assign(members, (topicId) => topics.get(topicId) ?? -1);
}

/** Every partition of a topic that somebody subscribes to has one owner, who subscribes to it; all in ascending order. */
function checkWhole(group: Group, assignment: Map<string, MemberAssignment>): void {
  expect([...assignment.keys()].sort()).toEqual(group.members.map(({ memberId }) => memberId).sort());
  const subscribed = new Map(
    group.members.map(({ memberId, subscribedTopicIds }) => [memberId, subscribedTopicIds]),
  );
  for (const [memberId, topics] of assignment) {
    for (const [topicId, partitions] of topics) {
      expect(subscribed.get(memberId)!.has(topicId)).toBe(true);
      expect(partitions.length).toBeGreaterThan(0);
      expect([...partitions].sort((a, b) => a - b)).toEqual(partitions);
    }
  }
  // owners() throws on a partition that is given twice.
  const owned = [...owners(assignment).keys()].sort();
  const wanted: string[] = [];
  for (const [topicId, count] of group.topics) {
    if (!group.members.some(({ subscribedTopicIds }) => subscribedTopicIds.has(topicId))) continue;
    for (let partition = 0; partition < count; partition++) wanted.push(`${topicId} ${partition}`);
  }
  expect(owned).toEqual(wanted.sort());
}

function size(assignment: MemberAssignment | undefined): number {
  return [...(assignment?.values() ?? [])].reduce((sum, partitions) => sum + partitions.length, 0);
}

/** The least sum of squares of loads that any assignment has, by moving along chains until none helps (small groups). */
function leastSquares({ members, topics }: Group): number {
  const loads = members.map(() => 0);
  const slots: { readonly can: number[]; at: number }[] = [];
  for (const [topicId, count] of topics) {
    const can = members.flatMap(({ subscribedTopicIds }, i) => (subscribedTopicIds.has(topicId) ? [i] : []));
    if (can.length === 0) continue;
    for (let p = 0; p < count; p++) {
      slots.push({ can, at: can[0]! });
      loads[can[0]!]!++;
    }
  }
  const better = (from: number): boolean => {
    const via = new Map<number, { slot: (typeof slots)[number]; before: number } | null>([[from, null]]);
    for (const member of via.keys()) {
      for (const slot of slots) {
        if (slot.at !== member) continue;
        for (const next of slot.can) {
          if (via.has(next)) continue;
          via.set(next, { slot, before: member });
          if (loads[next]! > loads[from]! - 2) continue;
          loads[next]!++;
          loads[from]!--;
          for (let at = next, step = via.get(at); step; at = step.before, step = via.get(at))
            step.slot.at = at;
          return true;
        }
      }
    }
    return false;
  };
  while (members.some((_, member) => better(member)));
  return loads.reduce((sum, load) => sum + load * load, 0);
}

function withTargets(members: readonly AssignorMember[], target: Map<string, MemberAssignment>) {
  return members.map((member) => ({ ...member, owned: target.get(member.memberId) ?? new Map() }));
}

function eachSeed(check: (seed: number) => void): void {
  for (const seed of SEEDS) {
    try {
      check(seed);
    } catch (error) {
      throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
    }
  }
}

// At full size, on a busy machine.
vi.setConfig({ testTimeout: 1_800_000 });

for (const assignor of [uniformAssignor, rangeAssignor]) {
  describe(`the ${assignor.name} assignor`, () => {
    for (const alike of [true, false]) {
      it(`gives every partition once, ${alike ? 'to members alike' : 'to members that differ'}`, () => {
        eachSeed((seed) => {
          const run = new RandomGroup(new Random(seed), alike);
          for (let step = 0; step < 12; step++) {
            run.change();
            const target = assign(assignor, run);
            checkWhole(run, target);
            const shuffled = { topics: run.topics, members: run.shuffled() };
            expect(assign(assignor, shuffled)).toEqual(target);
            run.take(target);
            if (assignor.name === 'uniform') {
              // Nothing moves when nothing changes.
              expect(moved(run, assign(assignor, run))).toBe(0);
            }
          }
        });
      });
    }

    it('leaves topics that do not exist, and members without topics, alone', () => {
      const none = { instanceId: null, rackId: null, owned: new Map() };
      const members = [
        { ...none, memberId: 'a', subscribedTopicIds: new Set(['gone']) },
        { ...none, memberId: 'b', subscribedTopicIds: new Set<string>() },
      ];
      expect(assignor.assign(members, () => -1)).toEqual(
        new Map([
          ['a', new Map()],
          ['b', new Map()],
        ]),
      );
      expect(assignor.assign([], () => 3)).toEqual(new Map());
    });
  });
}

describe('the uniform assignor', () => {
  it('is balanced within one, and moves the least, among members alike', () => {
    eachSeed((seed) => {
      const run = new RandomGroup(new Random(seed), true);
      for (let step = 0; step < 12; step++) {
        run.change();
        const target = assign(uniformAssignor, run);
        const loads = run.members.map(({ memberId }) => size(target.get(memberId)));
        expect(Math.max(0, ...loads) - Math.min(...loads, Number.POSITIVE_INFINITY)).toBeLessThanOrEqual(1);
        expect(moved(run, target)).toBe(run.leastMoves());
        run.take(target);
      }
    });
  });

  it('is as balanced as subscriptions allow among members that differ', () => {
    eachSeed((seed) => {
      const run = new RandomGroup(new Random(seed), false);
      for (let step = 0; step < 6; step++) {
        run.change();
        const target = assign(uniformAssignor, run);
        const squares = run.members.reduce((sum, { memberId }) => sum + size(target.get(memberId)) ** 2, 0);
        expect(squares).toBe(leastSquares(run));
        run.take(target);
      }
    });
  });

  it('moves only what a leaving member had, and to a joining member only its share', () => {
    eachSeed((seed) => {
      const random = new Random(seed);
      const run = new RandomGroup(random, true);
      while (run.members.length < 3) run.change();
      run.take(assign(uniformAssignor, run));
      const [gone, ...rest] = run.shuffled();
      const after = assign(uniformAssignor, { topics: run.topics, members: rest });
      for (const { memberId, owned } of rest) {
        for (const [topicId, partitions] of owned) {
          expect(after.get(memberId)!.get(topicId)).toEqual(expect.arrayContaining([...partitions]));
        }
      }
      const back = withTargets([...rest, gone!], after);
      const again = assign(uniformAssignor, { topics: run.topics, members: back });
      for (const { memberId } of rest) {
        for (const [topicId, partitions] of again.get(memberId)!) {
          expect(after.get(memberId)!.get(topicId)).toEqual(expect.arrayContaining([...partitions]));
        }
      }
    });
  });

  it('moves along a chain where no single move helps', () => {
    const member = (memberId: string, topics: string[], owned: [string, number[]][]) => ({
      memberId,
      instanceId: null,
      rackId: null,
      subscribedTopicIds: new Set(topics),
      owned: new Map(owned),
    });
    const members = [
      member('a', ['t'], [['t', [0, 1, 2]]]),
      member(
        'b',
        ['t', 'u'],
        [
          ['t', [3]],
          ['u', [0]],
        ],
      ),
      member('c', ['u'], [['u', [1]]]),
    ];
    const counts = new Map([
      ['t', 4],
      ['u', 2],
    ]);
    const target = uniformAssignor.assign(members, (topicId) => counts.get(topicId) ?? -1);
    expect([...target.values()].map(size)).toEqual([2, 2, 2]);
  });

  it('ends for 1,000 members and 10,000 partitions, alike and not', () => {
    for (const alike of [true, false]) {
      const random = new Random(3);
      const topics = new Map(
        Array.from({ length: 100 }, (_, t) => [`topic${String(t).padStart(3, '0')}`, 100]),
      );
      const names = [...topics.keys()];
      let members: AssignorMember[] = Array.from({ length: 1_000 }, (_, m) => ({
        memberId: `member${m}`,
        instanceId: null,
        rackId: null,
        subscribedTopicIds: new Set(alike ? names : names.filter((__, t) => (t + m) % 4 !== 0)),
        owned: new Map(),
      }));
      for (let step = 0; step < 3; step++) {
        const group = { topics, members };
        const target = assign(uniformAssignor, group);
        const loads = [...target.values()].map(size);
        expect([Math.min(...loads), Math.max(...loads)]).toEqual([10, 10]);
        members = withTargets(members, target);
        // One is replaced by another.
        const leaver = random.int(members.length);
        members[leaver] = { ...members[leaver]!, memberId: `member${1_000 + step}`, owned: new Map() };
      }
    }
  });
});

describe('the range assignor', () => {
  const member = (memberId: string, instanceId: string | null, ...topics: string[]): AssignorMember => ({
    memberId,
    instanceId,
    rackId: null,
    subscribedTopicIds: new Set(topics),
    owned: new Map(),
  });

  it('cuts topics alike, static members first by instance id', () => {
    const members = [
      member('a', null, 't', 'u'),
      member('b', 'i2', 't', 'u'),
      member('c', 'i1', 't', 'u'),
      member('d', null, 'v'),
    ];
    const target = rangeAssignor.assign(members, (topicId) => (topicId === 'v' ? 2 : 7));
    const row = (...partitions: number[]) =>
      new Map([
        ['t', partitions],
        ['u', partitions],
      ]);
    expect(target.get('c')).toEqual(row(0, 1, 2));
    expect(target.get('b')).toEqual(row(3, 4));
    expect(target.get('a')).toEqual(row(5, 6));
    expect(target.get('d')).toEqual(new Map([['v', [0, 1]]]));
  });

  it('gives nothing to those for whom nothing is left', () => {
    const members = ['a', 'b', 'c'].map((id) => member(id, null, 't'));
    expect([...rangeAssignor.assign(members, () => 2).values()].map(size)).toEqual([1, 1, 0]);
  });
});
