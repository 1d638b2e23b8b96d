/** Batches judged by the addon, one call each. */
import { type Addon, addon, check, toError } from '../native.ts';
import { type BatchFacts, type BatchInspector, noFacts } from './batch-inspector.ts';

const facts = noFacts();

function fillRecords({ results, slots }: Addon): void {
  facts.recordsMaxTimestamp = results[slots.recordsMaxTimestamp]!;
  facts.recordsMaxIndex = results[slots.recordsMaxIndex]!;
  facts.nullKeyIndex = results[slots.nullKeyIndex]!;
  facts.invalidIndex = results[slots.invalidIndex]!;
  facts.invalidTimestamp = results[slots.invalidTimestamp]!;
}

export const nativeInspector: BatchInspector = {
  inspectBatch(bytes, start, end, maxMessageBytes, oldest, newest): BatchFacts {
    const native = addon();
    const { results, slots } = native;
    const size = native.inspectBatch(bytes, start, end, maxMessageBytes, oldest, newest);
    facts.baseOffset = results[slots.baseOffset]!;
    facts.lastOffset = results[slots.lastOffset]!;
    facts.maxTimestamp = results[slots.maxTimestamp]!;
    facts.producerId = results[slots.producerId]!;
    facts.producerEpoch = results[slots.producerEpoch]!;
    facts.baseSequence = results[slots.baseSequence]!;
    facts.recordCount = results[slots.recordCount]!;
    facts.attributes = results[slots.attributes]!;
    facts.leaderEpoch = results[slots.leaderEpoch]!;
    facts.sizeInBytes = results[slots.sizeInBytes]!;
    facts.baseTimestamp = results[slots.baseTimestamp]!;
    facts.compression = results[slots.compression]!;
    facts.walked = results[slots.walked] === 1;
    fillRecords(native);
    facts.fault = size < 0 ? toError(native.lastStatus()) : undefined;
    return facts;
  },

  walkRecords(records, start, end, count, baseTimestamp, oldest, newest): BatchFacts {
    const native = addon();
    const result = native.walkRecords(records, start, end, count, baseTimestamp, oldest, newest);
    fillRecords(native);
    facts.fault = result < 0 ? toError(native.lastStatus()) : undefined;
    return facts;
  },

  patchBatch(bytes, start, end, logAppendTime, maxTimestamp): void {
    check(addon().patchBatch(bytes, start, end, logAppendTime, maxTimestamp));
  },
};
