/** Whether streams groups are served. */
import { STREAMS_VERSION } from '../../metadata/features.ts';
import type { BrokerContext } from '../context.ts';

/** `streams.version` must be finalized at 1, and `group.coordinator.rebalance.protocols` must name the protocol. */
export function servesStreamsProtocol({ image, config }: BrokerContext): boolean {
  return (
    (image.features.get(STREAMS_VERSION) ?? 0) >= 1 &&
    config.list('group.coordinator.rebalance.protocols').includes('streams')
  );
}
