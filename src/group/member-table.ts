/** Members of a group by id and by instance id, and how many of them have reached the target. Decides nothing. */

export interface TableMember {
  readonly memberId: string;
  readonly instanceId: string | null;
  /** Whether it has all of a target of that epoch. */
  isReconciledTo(targetEpoch: number): boolean;
  /** Its timers end. */
  stop(): void;
}

export class MemberTable<M extends TableMember> {
  readonly #byId = new Map<string, M>();
  /** Instance id to member id. */
  readonly #static = new Map<string, string>();
  #targetEpoch = 0;
  #reconciled = 0;

  get size(): number {
    return this.#byId.size;
  }

  get(memberId: string): M | undefined {
    return this.#byId.get(memberId);
  }

  /** In the order in which they joined. */
  all(): IterableIterator<M> {
    return this.#byId.values();
  }

  byInstance(instanceId: string): M | undefined {
    const memberId = this.#static.get(instanceId);
    return memberId === undefined ? undefined : this.#byId.get(memberId);
  }

  get allReconciled(): boolean {
    return this.#reconciled === this.#byId.size;
  }

  /** The epoch of the target that members are to reach. */
  set targetEpoch(epoch: number) {
    this.#targetEpoch = epoch;
    this.#reconciled = 0;
    for (const member of this.#byId.values()) if (member.isReconciledTo(epoch)) this.#reconciled++;
  }

  add(member: M): void {
    this.#byId.set(member.memberId, member);
    this.#count(member, 1);
  }

  remove(member: M): void {
    member.stop();
    this.#count(member, -1);
    this.#byId.delete(member.memberId);
  }

  /** Runs what changes a member. */
  protected change(member: M, change: () => void): void {
    this.#count(member, -1);
    change();
    this.#count(member, 1);
  }

  #count(member: M, by: 1 | -1): void {
    const { memberId, instanceId } = member;
    if (member.isReconciledTo(this.#targetEpoch)) this.#reconciled += by;
    if (instanceId === null) return;
    if (by === 1) this.#static.set(instanceId, memberId);
    else if (this.#static.get(instanceId) === memberId) this.#static.delete(instanceId);
  }
}
