/** Which connection each member was last heard on, for `group.member.removal.on.disconnect`. */
export interface HeardMember {
  readonly groupId: string;
  readonly memberId: string;
}

export class MemberConnections {
  /** By member: its group's id and its own, which can't hold a NUL. */
  readonly #byMember = new Map<string, number>();
  readonly #byConnection = new Map<number, Map<string, HeardMember>>();

  heard(connection: number, groupId: string, memberId: string): void {
    const key = `${groupId}\0${memberId}`;
    const before = this.#byMember.get(key);
    if (before === connection) return;
    if (before !== undefined) this.#byConnection.get(before)?.delete(key);
    this.#byMember.set(key, connection);
    let members = this.#byConnection.get(connection);
    if (members === undefined) {
      members = new Map();
      this.#byConnection.set(connection, members);
    }
    members.set(key, { groupId, memberId });
  }

  /** Forgets a connection, and gives the members that were last heard on it. */
  closed(connection: number): HeardMember[] {
    const members = this.#byConnection.get(connection);
    if (members === undefined) return [];
    this.#byConnection.delete(connection);
    for (const key of members.keys()) this.#byMember.delete(key);
    return [...members.values()];
  }
}
