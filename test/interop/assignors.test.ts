/** Our assignors and Apache Kafka's own classes, on the same random groups. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Assignor, MemberAssignment } from '../../src/group/assignor.ts';
import { rangeAssignor } from '../../src/group/assignor-range.ts';
import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import { type Group, moved, RandomGroup } from '../group/assignor-groups.ts';
import { command, KAFKA } from '../support/kafka-peer.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';

const GROUPS = scaled(100, 1_000);
const STEPS = 10;

/** test/support/AssignorOracle.java with Kafka's jars. */
class Oracle {
  readonly #java: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  constructor() {
    const cache = process.env.BROADSHEET_PEERS ?? join(homedir(), '.cache', 'broadsheet-peers');
    const release = readdirSync(cache).find((name) => name.startsWith('kafka-4.4'))!;
    const source = fileURLToPath(new URL('../support/AssignorOracle.java', import.meta.url));
    this.#java = spawn('java', ['-cp', join(cache, release, 'lib', '*'), source]);
    this.#java.stderr.pipe(process.stderr);
    this.#java.stdin.on('error', () => {});
    this.#lines = createInterface({ input: this.#java.stdout })[Symbol.asyncIterator]();
  }

  async assign(assignor: Assignor, group: Group): Promise<Map<string, MemberAssignment>> {
    const lines = [`case ${assignor.name}`];
    for (const [topicId, count] of group.topics) lines.push(`topic ${topicId} ${count}`);
    for (const { memberId, instanceId, subscribedTopicIds, owned } of group.members) {
      // To Kafka's assignors a topic that is gone is an error: its coordinator leaves it out.
      const topicIds = [...subscribedTopicIds].filter((id) => group.topics.has(id));
      lines.push(`member ${memberId} ${instanceId ?? '-'} ${topicIds.join()}`);
      for (const [topicId, partitions] of owned) lines.push(`owned ${topicId} ${partitions.join()}`);
    }
    this.#java.stdin.write(`${lines.join('\n')}\nend\n`);
    const assignment = new Map<string, Map<string, number[]>>(
      group.members.map(({ memberId }) => [memberId, new Map()]),
    );
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error('the oracle ended');
      const [memberId, topicId, partitions] = value.split(' ') as [string, string, string | undefined];
      if (partitions === undefined) return assignment;
      assignment.get(memberId)!.set(topicId, partitions.split(',').map(Number));
    }
  }

  close(): void {
    this.#java.kill();
  }
}

function loads(group: Group, assignment: Map<string, MemberAssignment>): number[] {
  return group.members
    .map(({ memberId }) =>
      [...assignment.get(memberId)!.values()].reduce((sum, { length }) => sum + length, 0),
    )
    .sort((a, b) => a - b);
}

describe("Apache Kafka's assignors and ours", () => {
  let oracle: Oracle;
  beforeAll(async () => {
    await command(KAFKA, 'install');
    oracle = new Oracle();
  });
  afterAll(() => oracle.close());

  async function each(
    assignor: Assignor,
    alike: boolean,
    check: (group: Group, ours: Map<string, MemberAssignment>, theirs: Map<string, MemberAssignment>) => void,
  ): Promise<void> {
    for (let seed = 1; seed <= GROUPS; seed++) {
      const group = new RandomGroup(new Random(seed), alike);
      for (let step = 0; step < STEPS; step++) {
        group.change();
        const ours = assignor.assign(group.members, (topicId) => group.topics.get(topicId) ?? -1);
        const theirs = await oracle.assign(assignor, group);
        try {
          check(group, ours, theirs);
        } catch (error) {
          throw new Error(`seed ${seed}, step ${step}: ${(error as Error).message}`, { cause: error });
        }
        group.take(theirs);
      }
    }
  }

  it('range: the same', async () => {
    const same = (_: Group, ours: unknown, theirs: unknown) => expect(ours).toEqual(theirs);
    await each(rangeAssignor, true, same);
    await each(rangeAssignor, false, same);
  });

  it('uniform, members alike: as balanced, and as many partitions move', async () => {
    await each(uniformAssignor, true, (group, ours, theirs) => {
      expect(loads(group, ours)).toEqual(loads(group, theirs));
      expect(moved(group, ours)).toBe(moved(group, theirs));
    });
  });

  it('uniform, members that differ: no less balanced, and where alike no more partitions move', async () => {
    let better = 0;
    const movements = [0, 0] as [number, number];
    await each(uniformAssignor, false, (group, ours, theirs) => {
      const squares = (assignment: Map<string, MemberAssignment>) =>
        loads(group, assignment).reduce((sum, load) => sum + load * load, 0);
      expect(squares(ours)).toBeLessThanOrEqual(squares(theirs));
      if (squares(ours) < squares(theirs)) better++;
      else {
        movements[0] += moved(group, ours);
        movements[1] += moved(group, theirs);
      }
    });
    expect(movements[0]).toBeLessThanOrEqual(movements[1]);
    expect(better).toBeLessThan(GROUPS * STEPS);
  });
});
