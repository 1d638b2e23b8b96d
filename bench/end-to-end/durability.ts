/**
 * What each durability mode costs: Produce with acks=all to a topic that flushes with each append, against one that leaves
 * flushing to the background, and a broker in memory; the same topics on Apache Kafka where BROADSHEET_KAFKA names one. All
 * take turns in each round.
 */
import {
  framesLoad,
  produceAnswerBytes,
  produceFrames,
  startBroadsheet,
  startKafka,
  type Target,
  withTopic,
} from '../broker-load.ts';
import { KAFKA_PORT } from '../groups/peers.ts';
import { type Comparison, median, ratioOf, type Scale } from '../support.ts';

/** One request at a time is what a flush costs; many show what group commit saves. */
const SHAPES = [
  { connections: 1, depth: 1, partitions: 1 },
  { connections: 64, depth: 5, partitions: 8 },
] as const;
const BATCH_BYTES = 16_384;

const FLUSHED = { 'flush.messages': '1' };

interface Mode {
  readonly name: string;
  readonly target: Target;
  readonly configs: Readonly<Record<string, string>>;
}

async function rate({ target, configs }: Mode, shape: (typeof SHAPES)[number], seconds: number) {
  const load = (topic: string) => {
    const answer = produceAnswerBytes(topic);
    return framesLoad(target, {
      ...{ ...shape, seconds, count: Number.MAX_SAFE_INTEGER, unitsPerAnswer: 1 },
      frames: produceFrames(topic, shape.partitions, BATCH_BYTES),
      answerBytes: [answer, answer],
    });
  };
  const { perSecond } = await withTopic(target, shape.partitions, load, configs);
  return perSecond;
}

async function compareModes(modes: readonly Mode[], { rounds, seconds }: Scale): Promise<Comparison[]> {
  const results: Comparison[] = [];
  for (const shape of SHAPES) {
    // What a process is told once is not counted.
    for (const mode of modes) await rate(mode, shape, seconds);
    const rates = modes.map((): number[] => []);
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < modes.length; turn++) {
        const at = (round + turn) % modes.length;
        rates[at]!.push(await rate(modes[at]!, shape, seconds));
      }
    }
    const [base, ...others] = rates as [number[], ...number[][]];
    for (const [at, own] of others.entries()) {
      results.push({
        name: `${modes[at + 1]!.name} against ${modes[0]!.name}, ${shape.connections} x ${shape.depth} in flight`,
        unit: '/s',
        ours: median(own),
        theirs: median(base),
        ratio: ratioOf(own.map((value, round) => value / base[round]!)),
      });
    }
  }
  return results;
}

export async function durability(scale: Scale): Promise<Comparison[]> {
  const disk = await startBroadsheet();
  const memory = await startBroadsheet({}, undefined, true);
  const kafka = process.env.BROADSHEET_KAFKA === undefined ? undefined : await startKafka(KAFKA_PORT);
  try {
    const modes: Mode[] = [
      { name: 'unset', target: disk, configs: {} },
      { name: 'flush.messages=1', target: disk, configs: FLUSHED },
      { name: 'in memory', target: memory, configs: {} },
    ];
    if (kafka !== undefined) {
      modes.push({ name: 'Kafka unset', target: kafka, configs: {} });
      modes.push({ name: 'Kafka flush.messages=1', target: kafka, configs: FLUSHED });
    }
    return await compareModes(modes, scale);
  } finally {
    await kafka?.stop();
    await memory.stop();
    await disk.stop();
  }
}
