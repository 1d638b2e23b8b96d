/** THE table: every API that this broker serves. What ApiVersions answers, and what a connection takes, is read off it. */
import { apiVersions } from './api-versions.ts';
import { createTopics } from './create-topics.ts';
import { deleteGroups } from './delete-groups.ts';
import { deleteTopics } from './delete-topics.ts';
import { describeGroups } from './describe-groups.ts';
import { fetch } from './fetch.ts';
import { findCoordinator } from './find-coordinator.ts';
import type { HandlerRow } from './handler.ts';
import { heartbeat } from './heartbeat.ts';
import { initProducerId } from './init-producer-id.ts';
import { joinGroup } from './join-group.ts';
import { leaveGroup } from './leave-group.ts';
import { listGroups } from './list-groups.ts';
import { listOffsets } from './list-offsets.ts';
import { metadata } from './metadata.ts';
import { offsetCommit } from './offset-commit.ts';
import { offsetDelete } from './offset-delete.ts';
import { offsetFetch } from './offset-fetch.ts';
import { produce } from './produce.ts';
import { syncGroup } from './sync-group.ts';

const ROWS: readonly HandlerRow[] = [
  produce,
  fetch,
  listOffsets,
  metadata,
  offsetCommit,
  offsetFetch,
  findCoordinator,
  joinGroup,
  heartbeat,
  leaveGroup,
  syncGroup,
  describeGroups,
  listGroups,
  apiVersions,
  createTopics,
  deleteTopics,
  initProducerId,
  deleteGroups,
  offsetDelete,
];

/** By API key, ascending. */
export const HANDLERS: ReadonlyMap<number, HandlerRow> = new Map(
  [...ROWS].sort((a, b) => a.key - b.key).map((row) => [row.key, row]),
);
