/** How soon a member of the consumer protocol is asked to send its next heartbeat. */

export interface Pace {
  /** `fixed`: someone has set it, and members at rest come no sooner. */
  readonly configured: { readonly ms: number; readonly fixed: boolean };
  /** Members of all groups of the protocol. */
  readonly brokerMembers: number;
  readonly groupMembers: number;
  /** Whether the member has nothing to give up and nothing to take up. */
  readonly isReconciled: boolean;
  /** Since members of its group were last given something to do. */
  readonly quietMs: number;
}

/** A broker hears one heartbeat of members at rest in this time, ms: about a hundredth of a core. */
const REST_MS = 5;
const SHORTEST_REST_MS = 100;
const SHORTEST_MS = 10;

/**
 * Members hear of a change with their next heartbeat, so what a rebalance takes is decided here. At rest a few members come
 * often and many as seldom as `group.consumer.heartbeat.interval.ms` says. While a group changes, they come after a quarter
 * of the time since the last change: the longer they have waited, the less a moment more matters. A member that waits
 * for others to let go of its partitions comes sooner than those who have nothing to wait for.
 */
export function heartbeatIntervalMs(pace: Pace): number {
  const { configured, brokerMembers, groupMembers, isReconciled, quietMs } = pace;
  const atRest = configured.fixed
    ? configured.ms
    : Math.min(configured.ms, Math.max(SHORTEST_REST_MS, brokerMembers * REST_MS));
  const shortest = isReconciled ? Math.max(SHORTEST_MS, groupMembers) : SHORTEST_MS;
  return Math.min(atRest, Math.max(shortest, Math.ceil(quietMs / 4)));
}
