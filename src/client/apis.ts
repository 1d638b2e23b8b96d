/** What the client needs of an API to call it. Any other is called by a descriptor made the same way. */

import { KafkaError } from '../protocol/errors.ts';
import {
  type ApiVersionsResponse,
  readApiVersionsResponse,
  writeApiVersionsRequest,
} from '../protocol/generated/ApiVersions.ts';
import { ApiKey } from '../protocol/generated/api-keys.ts';
import { readCreateTopicsResponse, writeCreateTopicsRequest } from '../protocol/generated/CreateTopics.ts';
import { readDeleteTopicsResponse, writeDeleteTopicsRequest } from '../protocol/generated/DeleteTopics.ts';
import { readFetchResponse, writeFetchRequest } from '../protocol/generated/Fetch.ts';
import {
  readFindCoordinatorResponse,
  writeFindCoordinatorRequest,
} from '../protocol/generated/FindCoordinator.ts';
import {
  readInitProducerIdResponse,
  writeInitProducerIdRequest,
} from '../protocol/generated/InitProducerId.ts';
import { readListOffsetsResponse, writeListOffsetsRequest } from '../protocol/generated/ListOffsets.ts';
import { readMetadataResponse, writeMetadataRequest } from '../protocol/generated/Metadata.ts';
import { readProduceResponse, writeProduceRequest } from '../protocol/generated/Produce.ts';
import type { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';

export interface Api<Request, Response> {
  readonly key: number;
  readonly write: (w: Writer, version: number, body: Request) => void;
  readonly read: (r: Reader, version: number) => Response;
}

export function api<Request, Response>(
  key: number,
  write: (w: Writer, version: number, body: Request) => void,
  read: (r: Reader, version: number) => Response,
): Api<Request, Response> {
  return { key, write, read };
}

/** A broker that does not know the version answers in version 0. */
function readVersions(r: Reader, version: number): ApiVersionsResponse {
  const start = r.position;
  const errorCode = r.int16();
  r.position = start;
  return readApiVersionsResponse(r, errorCode === KafkaError.UNSUPPORTED_VERSION ? 0 : version);
}

export const APIS = {
  apiVersions: api(ApiKey.ApiVersions, writeApiVersionsRequest, readVersions),
  createTopics: api(ApiKey.CreateTopics, writeCreateTopicsRequest, readCreateTopicsResponse),
  deleteTopics: api(ApiKey.DeleteTopics, writeDeleteTopicsRequest, readDeleteTopicsResponse),
  fetch: api(ApiKey.Fetch, writeFetchRequest, readFetchResponse),
  findCoordinator: api(ApiKey.FindCoordinator, writeFindCoordinatorRequest, readFindCoordinatorResponse),
  initProducerId: api(ApiKey.InitProducerId, writeInitProducerIdRequest, readInitProducerIdResponse),
  listOffsets: api(ApiKey.ListOffsets, writeListOffsetsRequest, readListOffsetsResponse),
  metadata: api(ApiKey.Metadata, writeMetadataRequest, readMetadataResponse),
  produce: api(ApiKey.Produce, writeProduceRequest, readProduceResponse),
} as const;
