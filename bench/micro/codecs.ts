/**
 * Produce and Fetch by hand against the generated codecs, in one process, side by side:
 * `node --import ./scripts/typescript.js bench/micro/codecs.ts [--small]`. Prints operations per second and
 * the ratio of each interleaved round: min / median / max.
 */
import { Bench } from 'tinybench';
import { nativeRanges } from '../../src/log/native-ranges.ts';
import { encodeFetchResponse, FetchRequestReader, type FetchResult } from '../../src/protocol/fetch.ts';
import {
  type FetchRequestInput,
  type FetchResponseInput,
  readFetchRequest,
  writeFetchRequest,
  writeFetchResponse,
} from '../../src/protocol/generated/Fetch.ts';
import {
  type ProduceResponseInput,
  readProduceRequest,
  writeProduceResponse as writeGeneratedProduceResponse,
  writeProduceRequest,
} from '../../src/protocol/generated/Produce.ts';
import {
  ProduceRequestReader,
  type ProduceTopicResult,
  writeProduceResponse,
} from '../../src/protocol/produce.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';

const small = process.argv.includes('--small');
const topicIds = Array.from({ length: 10 }, (_, t) => Buffer.alloc(16, t + 1).toString('base64url'));
const topicNames = topicIds.map((_, t) => `orders-of-region-${t}`);

interface Pair {
  readonly name: string;
  readonly generated: () => void;
  readonly byHand: () => void;
}

/** Requests and responses with this many topics of this many partitions each. */
function pairs(topics: number, partitions: number, produceVersion: number, fetchVersion: number): Pair[] {
  const size = `${topics}x${partitions}`;
  const r = new Reader();
  const w = new Writer(1 << 20);
  const list = <T>(count: number, make: (index: number) => T) =>
    Array.from({ length: count }, (_, i) => make(i));
  const records = new Uint8Array(100);

  writeProduceRequest(w, produceVersion, {
    transactionalId: null,
    acks: -1,
    timeoutMs: 30_000,
    topicData: list(topics, (t) => ({
      ...(produceVersion >= 13 ? { topicId: topicIds[t]! } : { name: topicNames[t]! }),
      partitionData: list(partitions, (index) => ({ index, records })),
    })),
  });
  const produceFrame = Buffer.from(w.bytes());
  w.reset();

  const fetch: FetchRequestInput = {
    maxWaitMs: 500,
    minBytes: 1,
    maxBytes: 52_428_800,
    isolationLevel: 0,
    sessionId: 0,
    sessionEpoch: 0,
    topics: list(topics, (t) => ({
      ...(fetchVersion >= 13 ? { topicId: topicIds[t]! } : { topic: topicNames[t]! }),
      partitions: list(partitions, (partition) => ({
        partition,
        currentLeaderEpoch: 5,
        fetchOffset: 123_456_789,
        lastFetchedEpoch: -1,
        logStartOffset: -1,
        partitionMaxBytes: 1_048_576,
      })),
    })),
    forgottenTopicsData: [],
    rackId: '',
  };
  writeFetchRequest(w, fetchVersion, fetch);
  const fetchFrame = Buffer.from(w.bytes());

  const produced = { errorCode: 0, baseOffset: 123_456_789, logAppendTimeMs: -1, logStartOffset: 0 };
  const produceResult: ProduceTopicResult[] = list(topics, (t) => ({
    topic: produceVersion >= 13 ? topicIds[t]! : topicNames[t]!,
    partitions: list(partitions, (index) => ({ index, ...produced })),
  }));
  const produceResponse: ProduceResponseInput = {
    responses: list(topics, (t) => ({
      ...(produceVersion >= 13 ? { topicId: topicIds[t]! } : { name: topicNames[t]! }),
      partitionResponses: list(partitions, (index) => ({ index, ...produced })),
    })),
  };

  // What the kernel would send: a range of a file. The generated codec copies the bytes instead.
  const fetched = {
    errorCode: 0,
    highWatermark: 123_456_800,
    lastStableOffset: 123_456_800,
    logStartOffset: 0,
  };
  const batches = new Uint8Array(4096);
  const range = { source: nativeRanges, segment: 1, position: 4096, length: batches.length };
  const fetchResult: FetchResult = {
    throttleTimeMs: 0,
    errorCode: 0,
    sessionId: 0,
    responses: list(topics, (t) => ({
      topic: fetchVersion >= 13 ? topicIds[t]! : topicNames[t]!,
      partitions: list(partitions, (partitionIndex) => ({ partitionIndex, ...fetched, records: range })),
    })),
  };
  const fetchResponse: FetchResponseInput = {
    throttleTimeMs: 0,
    errorCode: 0,
    responses: list(topics, (t) => ({
      ...(fetchVersion >= 13 ? { topicId: topicIds[t]! } : { topic: topicNames[t]! }),
      partitions: list(partitions, (partitionIndex) => ({
        partitionIndex,
        ...fetched,
        abortedTransactions: null,
        records: batches,
      })),
    })),
  };

  const produceReader = new ProduceRequestReader();
  const fetchReader = new FetchRequestReader();
  return [
    {
      name: `read ProduceRequest v${produceVersion} ${size}`,
      generated: () => {
        r.reset(produceFrame);
        readProduceRequest(r, produceVersion);
      },
      byHand: () => {
        r.reset(produceFrame);
        produceReader.read(r, produceVersion);
      },
    },
    {
      name: `write ProduceResponse v${produceVersion} ${size}`,
      generated: () => {
        w.reset();
        writeGeneratedProduceResponse(w, produceVersion, produceResponse);
      },
      byHand: () => {
        w.reset();
        writeProduceResponse(w, produceVersion, produceResult);
      },
    },
    {
      name: `read FetchRequest v${fetchVersion} ${size}`,
      generated: () => {
        r.reset(fetchFrame);
        readFetchRequest(r, fetchVersion);
      },
      byHand: () => {
        r.reset(fetchFrame);
        fetchReader.read(r, fetchVersion);
      },
    },
    {
      name: `write FetchResponse v${fetchVersion} ${size}`,
      generated: () => {
        w.reset();
        writeFetchResponse(w, fetchVersion, fetchResponse);
      },
      byHand: () => {
        w.reset();
        encodeFetchResponse(w, fetchVersion, fetchResult);
      },
    },
  ];
}

const all = [
  ...pairs(1, 1, 13, 18),
  ...pairs(10, 10, 13, 18),
  ...pairs(1, 1, 11, 12),
  ...pairs(10, 10, 8, 11),
];
const rounds = small ? 3 : 9;
const times = small ? { time: 10, warmupTime: 5 } : { time: 60, warmupTime: 20 };

/** Median operations per second of one round. */
async function round({ generated, byHand }: Pair): Promise<[number, number]> {
  const bench = new Bench(times);
  bench.add('generated', generated);
  bench.add('by hand', byHand);
  const rates = (await bench.run()).map(({ name, result }) => {
    if (!('latency' in result)) throw new Error(`${name} did not run`);
    return 1000 / result.latency.p50;
  });
  return [rates[0]!, rates[1]!];
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;
const thousands = (value: number) => `${Math.round(value / 1000)}k/s`.padStart(9);

const results = new Map<Pair, [number, number][]>(all.map((pair) => [pair, []]));
for (let i = 0; i < rounds; i++) for (const pair of all) results.get(pair)!.push(await round(pair));
for (const [{ name }, rates] of results) {
  const ratios = rates.map(([generated, byHand]) => byHand / generated).sort((a, b) => a - b);
  const spread = [ratios[0]!, median(ratios), ratios[ratios.length - 1]!].map((ratio) => ratio.toFixed(2));
  const generated = thousands(median(rates.map((rate) => rate[0])));
  const byHand = thousands(median(rates.map((rate) => rate[1])));
  console.log(`${name.padEnd(34)} generated ${generated}  by hand ${byHand}  ratio ${spread.join(' / ')}`);
}
