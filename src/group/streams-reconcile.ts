/** How one member of a streams group comes from the tasks it has to those its target says: as for consumers
 * (consumer-reconcile.ts), for all roles at once. */
import type { EpochPartitions } from './consumer-member.ts';
import { MemberState } from './consumer-member.ts';
import { count, ownsAny, put, split, takeUp } from './consumer-reconcile.ts';
import type { TaskProgress } from './streams-member.ts';
import { byRole, hasTasks, NOTHING_HELD, ROLES, type Role, type TaskAssignment } from './streams-tasks.ts';

export interface TaskTarget {
  readonly epoch: number;
  readonly tasks: TaskAssignment;
}

/** Whether someone else has to let go of a task first. */
type IsTaskHeld = (role: Role, subtopologyId: string, partition: number) => boolean;

/** Partitions in order again. */
function ascending(tasks: EpochPartitions): EpochPartitions {
  return new Map([...tasks].map(([id, epochs]) => [id, new Map([...epochs].sort(([a], [b]) => a - b))]));
}

/** The next step of a member, or the same object when there is none. `owned` is what the member says that it owns. */
export function reconcileTasks(
  progress: TaskProgress,
  target: TaskTarget,
  owned: TaskAssignment | null,
  isHeld: IsTaskHeld,
): TaskProgress {
  const { state, memberEpoch, pendingRevocation } = progress;
  if (state === MemberState.STABLE && memberEpoch === target.epoch) return progress;
  const mayOwn = (tasks: Record<Role, EpochPartitions>) =>
    ROLES.some((role) => ownsAny(owned === null ? null : owned[role], tasks[role]));
  if (state === MemberState.UNREVOKED && mayOwn(pendingRevocation)) return progress;
  const { assigned } = progress;
  const parts = byRole((role) => split(assigned[role], target.tasks[role]));
  const lost = byRole((role) => parts[role].lost);
  if (hasTasks(lost) && mayOwn(lost)) {
    // A task that only changes its role is told at once, so that its state is handed over and not closed.
    for (const role of ROLES) {
      for (const [id, partitions] of target.tasks[role]) {
        for (const partition of partitions) {
          const changes = ROLES.some((other) => other !== role && lost[other].get(id)?.has(partition));
          if (changes && !isHeld(role, id, partition)) put(parts[role].kept, id, partition, target.epoch);
        }
      }
    }
    const kept = byRole((role) => ascending(parts[role].kept));
    return { ...progress, state: MemberState.UNREVOKED, assigned: kept, pendingRevocation: lost };
  }
  const steps = byRole((role) =>
    takeUp({ epoch: target.epoch, partitions: target.tasks[role] }, assigned[role], (id, partition) =>
      isHeld(role, id, partition),
    ),
  );
  const moves = memberEpoch !== target.epoch;
  const next = ROLES.some((role) => steps[role].isWaiting) ? MemberState.UNRELEASED : MemberState.STABLE;
  const changes = ROLES.some((role) => count(steps[role].taken) !== count(parts[role].kept));
  if (!moves && next === state && !changes && !hasTasks(lost)) return progress;
  return {
    memberEpoch: target.epoch,
    previousMemberEpoch: moves ? memberEpoch : progress.previousMemberEpoch,
    state: next,
    assigned: byRole((role) => steps[role].taken),
    pendingRevocation: NOTHING_HELD,
  };
}
