/** The requests of transactional producers and of those who look after them. */
import { APIS, api } from '../../src/client/apis.ts';
import * as addOffsets from '../../src/protocol/generated/AddOffsetsToTxn.ts';
import * as addPartitions from '../../src/protocol/generated/AddPartitionsToTxn.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import * as describeProducers from '../../src/protocol/generated/DescribeProducers.ts';
import * as describeTransactions from '../../src/protocol/generated/DescribeTransactions.ts';
import * as endTxn from '../../src/protocol/generated/EndTxn.ts';
import * as listTransactions from '../../src/protocol/generated/ListTransactions.ts';
import * as offsetFetch from '../../src/protocol/generated/OffsetFetch.ts';
import * as txnOffsetCommit from '../../src/protocol/generated/TxnOffsetCommit.ts';
import * as writeTxnMarkers from '../../src/protocol/generated/WriteTxnMarkers.ts';

export const CALLS = {
  init: APIS.initProducerId,
  produce: APIS.produce,
  add: api(
    ApiKey.AddPartitionsToTxn,
    addPartitions.writeAddPartitionsToTxnRequest,
    addPartitions.readAddPartitionsToTxnResponse,
  ),
  addOffsets: api(
    ApiKey.AddOffsetsToTxn,
    addOffsets.writeAddOffsetsToTxnRequest,
    addOffsets.readAddOffsetsToTxnResponse,
  ),
  end: api(ApiKey.EndTxn, endTxn.writeEndTxnRequest, endTxn.readEndTxnResponse),
  commitOffsets: api(
    ApiKey.TxnOffsetCommit,
    txnOffsetCommit.writeTxnOffsetCommitRequest,
    txnOffsetCommit.readTxnOffsetCommitResponse,
  ),
  offsets: api(ApiKey.OffsetFetch, offsetFetch.writeOffsetFetchRequest, offsetFetch.readOffsetFetchResponse),
  markers: api(
    ApiKey.WriteTxnMarkers,
    writeTxnMarkers.writeWriteTxnMarkersRequest,
    writeTxnMarkers.readWriteTxnMarkersResponse,
  ),
  producers: api(
    ApiKey.DescribeProducers,
    describeProducers.writeDescribeProducersRequest,
    describeProducers.readDescribeProducersResponse,
  ),
  describe: api(
    ApiKey.DescribeTransactions,
    describeTransactions.writeDescribeTransactionsRequest,
    describeTransactions.readDescribeTransactionsResponse,
  ),
  list: api(
    ApiKey.ListTransactions,
    listTransactions.writeListTransactionsRequest,
    listTransactions.readListTransactionsResponse,
  ),
} as const;
