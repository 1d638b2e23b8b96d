/**
 * What a server-side assignor of the consumer protocol (KIP-848) is asked, and what it answers. An assignor is a pure function:
 * the same members, partitions and targets give the same answer, in whatever order the members come.
 */

/** One member of the group, as an assignor sees it. */
export interface AssignorMember {
  readonly memberId: string;
  /** `group.instance.id` of a static member. */
  readonly instanceId: string | null;
  readonly rackId: string | null;
  /** Ids of the existing topics that it subscribes to. */
  readonly subscribedTopicIds: ReadonlySet<string>;
  /** Its target assignment so far, by topic id: what a sticky assignor leaves where it is. */
  readonly owned: ReadonlyMap<string, readonly number[]>;
}

/** Partitions of one member by topic id, ascending. A topic of which it gets nothing is not in it. */
export type MemberAssignment = ReadonlyMap<string, readonly number[]>;

/** A server-side assignor, by Kafka's name (`group.consumer.assignors`). */
export interface Assignor {
  readonly name: 'uniform' | 'range';
  /**
   * A new target assignment: an entry for every member, an empty one for who gets nothing.
   *
   * @param partitionCount partitions of a topic; 0 or less when there is no such topic, whose subscription then counts for nothing
   */
  assign(
    members: readonly AssignorMember[],
    partitionCount: (topicId: string) => number,
  ): Map<string, MemberAssignment>;
}
