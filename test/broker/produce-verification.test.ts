import { describe, expect, it } from 'vitest';
import { verificationFault } from '../../src/broker/produce-verification.ts';
import { KafkaError } from '../../src/protocol/errors.ts';

describe('verificationFault', () => {
  it.each([
    ['PRODUCER_FENCED', 'adds-partitions', 'INVALID_PRODUCER_EPOCH', false],
    ['PRODUCER_FENCED', 'none', 'INVALID_PRODUCER_EPOCH', false],
    ['INVALID_PRODUCER_ID_MAPPING', 'adds-partitions', 'INVALID_PRODUCER_ID_MAPPING', false],
    ['TRANSACTION_ABORTABLE', 'adds-partitions', 'TRANSACTION_ABORTABLE', false],
    ['TRANSACTION_ABORTABLE', 'knows-abortable', 'TRANSACTION_ABORTABLE', false],
    ['TRANSACTION_ABORTABLE', 'none', 'INVALID_TXN_STATE', true],
    ['CONCURRENT_TRANSACTIONS', 'adds-partitions', 'CONCURRENT_TRANSACTIONS', true],
    ['CONCURRENT_TRANSACTIONS', 'knows-abortable', 'NOT_ENOUGH_REPLICAS', true],
    ['NOT_COORDINATOR', 'none', 'NOT_ENOUGH_REPLICAS', true],
  ] as const)('tells %s to producers of support %s as %s', (code, support, told, explained) => {
    const fault = verificationFault(KafkaError[code], support);
    expect(fault.code).toBe(KafkaError[told]);
    expect(fault.message !== null).toBe(explained);
  });
});
