/** Settings of streams groups where a test does not care. */
import type { StreamsSettings } from '../../src/group/streams-types.ts';

export const STREAMS_SETTINGS: StreamsSettings = {
  maxSize: 1000,
  sessionTimeoutMs: () => 45_000,
  heartbeatInterval: () => ({ ms: 5000, fixed: false }),
  assignmentIntervalMs: () => 0,
  initialRebalanceDelayMs: () => 0,
  taskOffsetIntervalMs: () => 60_000,
  acceptableRecoveryLag: () => 10_000,
  assignorName: () => 'sticky',
  standbyReplicas: () => 0,
  rackTags: () => [],
};
