/** Whether groups of the consumer protocol are served. */
import { GROUP_VERSION } from '../../metadata/features.ts';
import type { BrokerContext } from '../context.ts';

/** `group.version` must be finalized at 1, and `group.coordinator.rebalance.protocols` must name the protocol. */
export function servesConsumerProtocol({ image, config }: BrokerContext): boolean {
  return (
    (image.features.get(GROUP_VERSION) ?? 0) >= 1 &&
    config.list('group.coordinator.rebalance.protocols').includes('consumer')
  );
}
