/** The members of one streams group, and who holds which task. Decides nothing. */
import { MemberTable } from './member-table.ts';
import type { StreamsMember, StreamsMemberFacts, TaskProgress } from './streams-member.ts';
import { type HeldTasks, ROLES, type Role } from './streams-tasks.ts';

interface Holding {
  readonly member: StreamsMember;
  readonly role: Role;
}

export class StreamsMembers extends MemberTable<StreamsMember> {
  /** Subtopology id -> partition -> who holds the task, be it only to give it up. */
  readonly #holdings = new Map<string, Map<number, Holding[]>>();

  override add(member: StreamsMember): void {
    super.add(member);
    this.#hold(member, member.progress);
  }

  override remove(member: StreamsMember): void {
    this.#release(member, member.progress);
    super.remove(member);
  }

  setFacts(member: StreamsMember, facts: StreamsMemberFacts): void {
    this.change(member, () => {
      member.facts = facts;
    });
  }

  setProgress(member: StreamsMember, progress: TaskProgress): void {
    this.#release(member, member.progress);
    this.change(member, () => {
      member.progress = progress;
    });
    this.#hold(member, progress);
  }

  #each(
    held: HeldTasks,
    visit: (tasks: Map<number, Holding[]>, partition: number, role: Role) => void,
  ): void {
    for (const role of ROLES) {
      for (const [subtopologyId, partitions] of held[role]) {
        let tasks = this.#holdings.get(subtopologyId);
        if (tasks === undefined) {
          tasks = new Map();
          this.#holdings.set(subtopologyId, tasks);
        }
        for (const partition of partitions.keys()) visit(tasks, partition, role);
        if (tasks.size === 0) this.#holdings.delete(subtopologyId);
      }
    }
  }

  #hold(member: StreamsMember, { assigned, pendingRevocation }: TaskProgress): void {
    for (const held of [assigned, pendingRevocation]) {
      this.#each(held, (tasks, partition, role) => {
        const holdings = tasks.get(partition);
        if (holdings === undefined) tasks.set(partition, [{ member, role }]);
        else holdings.push({ member, role });
      });
    }
  }

  #release(member: StreamsMember, { assigned, pendingRevocation }: TaskProgress): void {
    for (const held of [assigned, pendingRevocation]) {
      this.#each(held, (tasks, partition) => {
        const left = (tasks.get(partition) ?? []).filter((holding) => holding.member !== member);
        if (left.length === 0) tasks.delete(partition);
        else tasks.set(partition, left);
      });
    }
  }

  /** Whether someone else has what a member is to take up: the one active task, or in its process any copy, since processes
   * lock the state of a task. */
  isHeldByOthers(of: StreamsMember, role: Role, subtopologyId: string, partition: number): boolean {
    const holdings = this.#holdings.get(subtopologyId)?.get(partition) ?? [];
    return holdings.some(
      ({ member, role: held }) =>
        member !== of &&
        ((role === 'active' && held === 'active') || member.facts.processId === of.facts.processId),
    );
  }
}
