/**
 * The `sticky` assignor of streams groups (KIP-1071). Every task is active once. Tasks stay where they are, then go where there
 * is a copy of their state, and are spread evenly over members; standby copies go to other processes than their task, to
 * such with other tags first. A pure function: the same members and targets give the same answer, in whatever order they come.
 */
import type { MemberAssignment } from './assignor.ts';
import { put } from './consumer-reconcile.ts';
import { NO_TASKS, type Role, type TaskAssignment } from './streams-tasks.ts';
import type { ConfiguredSubtopology } from './streams-topology.ts';
import type { KeyValue } from './streams-types.ts';

/** One member, as the assignor sees it. */
export interface TaskMember {
  readonly memberId: string;
  readonly processId: string;
  readonly clientTags: readonly KeyValue[];
  /** Its target so far. */
  readonly owned: TaskAssignment;
}

export interface TaskRequest {
  readonly members: readonly TaskMember[];
  readonly subtopologies: ReadonlyMap<string, ConfiguredSubtopology>;
  readonly standbyReplicas: number;
  /** Tags in which the processes of copies should differ. */
  readonly rackTags: readonly string[];
}

interface Task {
  readonly id: string;
  readonly partition: number;
  readonly hasState: boolean;
  /** All members that get it, in whatever role. */
  readonly holders: Seat[];
}

/** A member with what it gets. */
class Seat {
  readonly member: TaskMember;
  readonly process: { tasks: number; members: number };
  readonly given: Record<Role, Map<string, Map<number, number>>> = {
    active: new Map(),
    standby: new Map(),
    warmup: new Map(),
  };
  active = 0;
  total = 0;

  constructor(member: TaskMember, process: Seat['process']) {
    this.member = member;
    this.process = process;
    process.members++;
  }

  had(role: Role, { id, partition }: Task): boolean {
    return this.member.owned[role].get(id)?.includes(partition) ?? false;
  }

  give(role: Role, task: Task): void {
    put(this.given[role], task.id, task.partition, 0);
    task.holders.push(this);
    this.total++;
    this.process.tasks++;
    if (role === 'active') this.active++;
  }

  /** Tasks per member of its process. */
  get load(): number {
    return this.process.tasks / this.process.members;
  }

  get assignment(): TaskAssignment {
    const plain = (role: Role): MemberAssignment =>
      new Map(
        [...this.given[role]]
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([id, tasks]) => [id, [...tasks.keys()].sort((a, b) => a - b)]),
      );
    return { active: plain('active'), standby: plain('standby'), warmup: NO_TASKS.warmup };
  }
}

/** The one that is less than all others by the first number that differs. */
function least(seats: readonly Seat[], rank: (seat: Seat) => readonly number[]): Seat | undefined {
  let best: Seat | undefined;
  let bestRank: readonly number[] = [];
  for (const seat of seats) {
    const own = rank(seat);
    const at = own.findIndex((number, index) => number !== bestRank[index]);
    if (best === undefined || (at >= 0 && own[at]! < bestRank[at]!)) {
      best = seat;
      bestRank = own;
    }
  }
  return best;
}

/** A target for every member, an empty one for who gets nothing. */
export function assignTasks(request: TaskRequest): Map<string, TaskAssignment> {
  const processes = new Map<string, Seat['process']>();
  const members = [...request.members].sort((a, b) => (a.memberId < b.memberId ? -1 : 1));
  const seats = members.map((member) => {
    const process = processes.get(member.processId) ?? { tasks: 0, members: 0 };
    processes.set(member.processId, process);
    return new Seat(member, process);
  });
  const tasks = allTasks(request.subtopologies);
  assignActive(tasks, seats);
  assignStandby(tasks, seats, request);
  return new Map(seats.map((seat) => [seat.member.memberId, seat.assignment]));
}

/** By partition first: tasks of one input are spread before those of the next. */
function allTasks(subtopologies: TaskRequest['subtopologies']): Task[] {
  const tasks: Task[] = [];
  for (const [id, { tasks: count, hasState }] of subtopologies) {
    for (let partition = 0; partition < count; partition++)
      tasks.push({ id, partition, hasState, holders: [] });
  }
  return tasks.sort((a, b) => a.partition - b.partition || (a.id < b.id ? -1 : 1));
}

function assignActive(tasks: readonly Task[], seats: readonly Seat[]): void {
  if (seats.length === 0) return;
  const share = Math.floor(tasks.length / seats.length);
  /** As many members may have one more than the others. */
  let larger = tasks.length % seats.length;
  const hasRoom = (seat: Seat) => seat.active < share || (seat.active === share && larger > 0);
  const give = (seat: Seat, task: Task) => {
    if (seat.active === share) larger--;
    seat.give('active', task);
  };
  const owners = new Map<string, { readonly role: Role; readonly seat: Seat }[]>();
  for (const seat of seats) {
    for (const role of ['active', 'standby', 'warmup'] as const) {
      for (const [id, partitions] of seat.member.owned[role]) {
        for (const partition of partitions) {
          const key = `${partition} ${id}`;
          owners.set(key, [...(owners.get(key) ?? []), { role, seat }]);
        }
      }
    }
  }
  const left: Task[] = [];
  const stays = (open: readonly Task[], isOwner: (role: Role) => boolean) =>
    open.filter((task) => {
      const known = owners.get(`${task.partition} ${task.id}`) ?? [];
      const able = known.filter(({ role, seat }) => isOwner(role) && hasRoom(seat)).map(({ seat }) => seat);
      const seat = least(able, ({ active }) => [active]);
      if (seat === undefined) return true;
      give(seat, task);
      return false;
    });
  left.push(
    ...stays(
      stays(tasks, (role) => role === 'active'),
      (role) => role !== 'active',
    ),
  );
  for (const task of left) {
    const able = seats.filter(hasRoom);
    give(least(able, (seat) => [seat.active, seat.load])!, task);
  }
}

/** How many of the tags two members have the same value in. */
function sharedTags(a: TaskMember, b: TaskMember, tags: readonly string[]): number {
  const value = ({ clientTags }: TaskMember, tag: string) => clientTags.find(({ key }) => key === tag)?.value;
  return tags.filter((tag) => value(a, tag) !== undefined && value(a, tag) === value(b, tag)).length;
}

function assignStandby(tasks: readonly Task[], seats: readonly Seat[], request: TaskRequest): void {
  const { standbyReplicas, rackTags } = request;
  if (standbyReplicas === 0) return;
  const stateful = tasks.filter(({ hasState }) => hasState);
  const share = Math.ceil((tasks.length + standbyReplicas * stateful.length) / Math.max(1, seats.length));
  for (const task of stateful) {
    for (let copy = 0; copy < standbyReplicas; copy++) {
      const taken = new Set(task.holders.map(({ process }) => process));
      const able = seats.filter(({ process }) => !taken.has(process));
      const seat = least(able, (one) => {
        const had = one.had('standby', task) || one.had('active', task) || one.had('warmup', task);
        const shared = task.holders.map(({ member }) => sharedTags(member, one.member, rackTags));
        return [Math.max(0, ...shared), had && one.total < share ? 0 : 1, one.load, one.total];
      });
      if (seat === undefined) break;
      seat.give('standby', task);
    }
  }
}
