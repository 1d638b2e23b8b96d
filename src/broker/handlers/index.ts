/** THE table: every API that this broker serves. What ApiVersions answers, and what a connection takes, is read off it. */
import { apiVersions } from './api-versions.ts';
import { createTopics } from './create-topics.ts';
import { deleteTopics } from './delete-topics.ts';
import { fetch } from './fetch.ts';
import type { HandlerRow } from './handler.ts';
import { initProducerId } from './init-producer-id.ts';
import { listOffsets } from './list-offsets.ts';
import { metadata } from './metadata.ts';
import { produce } from './produce.ts';

const ROWS: readonly HandlerRow[] = [
  produce,
  fetch,
  listOffsets,
  metadata,
  apiVersions,
  createTopics,
  deleteTopics,
  initProducerId,
];

/** By API key, ascending. */
export const HANDLERS: ReadonlyMap<number, HandlerRow> = new Map(
  [...ROWS].sort((a, b) => a.key - b.key).map((row) => [row.key, row]),
);
