/**
 * The `uniform` assignor: every member gets the same number of partitions, one more or less, and keeps as many as it can of
 * those it has (KIP-848). Where members subscribe to different topics, see assignor-mixed.ts. Takes time in proportion to
 * members and partitions.
 */
import type { Assignor, AssignorMember } from './assignor.ts';
import { Claims } from './assignor-claims.ts';
import { balanceMixed } from './assignor-mixed.ts';

function sameTopics(members: readonly AssignorMember[]): boolean {
  const [first] = members;
  if (first === undefined) return true;
  const topics = first.subscribedTopicIds;
  const equal = new Set([topics]);
  return members.every(({ subscribedTopicIds }) => {
    if (equal.has(subscribedTopicIds)) return true;
    if (subscribedTopicIds.size !== topics.size) return false;
    for (const id of subscribedTopicIds) if (!topics.has(id)) return false;
    equal.add(subscribedTopicIds);
    return true;
  });
}

/** All subscribe to the same: who has more than its share gives back, then who has less takes. */
function balanceAlike(claims: Claims): void {
  const { members, topics, loads } = claims;
  const total = topics.reduce((sum, { owners }) => sum + owners.length, 0);
  const share = Math.floor(total / members.length);
  let largerShares = total % members.length;
  const shares = loads.map((load) => {
    if (load <= share || largerShares === 0) return share;
    largerShares--;
    return share + 1;
  });
  for (const topic of topics.toReversed()) {
    for (let partition = topic.owners.length - 1; partition >= 0; partition--) {
      const owner = topic.owners[partition]!;
      if (owner >= 0 && loads[owner]! > shares[owner]!) claims.give(topic, partition, -1);
    }
  }
  for (let member = 0; largerShares > 0; member++) {
    if (shares[member] !== share) continue;
    shares[member]!++;
    largerShares--;
  }
  let taker = 0;
  for (const topic of topics) {
    topic.owners.forEach((owner, partition) => {
      if (owner >= 0) return;
      while (loads[taker]! >= shares[taker]!) taker++;
      claims.give(topic, partition, taker);
    });
  }
}

export const uniformAssignor: Assignor = {
  name: 'uniform',

  assign(members, partitionCount) {
    const claims = new Claims(members, partitionCount);
    if (sameTopics(members)) balanceAlike(claims);
    else balanceMixed(claims);
    return claims.assignment();
  },
};
