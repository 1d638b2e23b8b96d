/** Tasks of a streams group: a task is a partition of a subtopology, and a member has it in one of three roles. */
import type { MemberAssignment } from './assignor.ts';
import {
  type EpochPartitions,
  NO_PARTITIONS,
  NOTHING_ASSIGNED,
  partitionsOf,
  sameAssignment,
  samePartitions,
  withoutEpochs,
} from './consumer-member.ts';

/** Active tasks process records; standby tasks keep a copy of the state; warmup tasks build one. */
export const ROLES = ['active', 'standby', 'warmup'] as const;
export type Role = (typeof ROLES)[number];
export type ByRole<T> = Readonly<Record<Role, T>>;

/** By subtopology id: the partitions, ascending. */
export type TaskAssignment = ByRole<MemberAssignment>;
/** With the epoch in which each was assigned; only that of active tasks counts. */
export type HeldTasks = ByRole<EpochPartitions>;

export function byRole<T>(make: (role: Role) => T): ByRole<T> {
  return { active: make('active'), standby: make('standby'), warmup: make('warmup') };
}

export const NO_TASKS: TaskAssignment = byRole(() => NOTHING_ASSIGNED);
export const NOTHING_HELD: HeldTasks = byRole(() => NO_PARTITIONS);

export function hasTasks(tasks: ByRole<ReadonlyMap<string, unknown>>): boolean {
  return ROLES.some((role) => tasks[role].size > 0);
}

export function sameTasks(a: TaskAssignment, b: TaskAssignment): boolean {
  return ROLES.every((role) => sameAssignment(a[role], b[role]));
}

export function sameHeld(a: HeldTasks, b: HeldTasks): boolean {
  return ROLES.every((role) => samePartitions(a[role], b[role]));
}

/** Without the epochs. */
export function tasksOf(held: HeldTasks): TaskAssignment {
  return byRole((role) => partitionsOf(held[role]));
}

/** With an epoch that all are newer than. */
export function heldWithoutEpochs(held: HeldTasks): HeldTasks {
  return byRole((role) => withoutEpochs(held[role]));
}
