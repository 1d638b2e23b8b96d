/** A client of a TestBroker that fetches in sessions. */
import { readFetchResponse, writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import type { FakePeer } from './fake-transport.ts';
import { responseBody, type TestBroker } from './test-broker.ts';
import { valuesOf } from './test-client.ts';

export interface AskedPartition {
  readonly topic: string;
  readonly topicId?: string;
  readonly index?: number;
  readonly offset?: number;
  readonly maxBytes?: number;
  readonly currentLeaderEpoch?: number;
  readonly lastFetchedEpoch?: number;
}

export interface SessionPoll {
  readonly sessionId?: number;
  readonly epoch?: number;
  readonly asked?: readonly AskedPartition[];
  readonly forgotten?: readonly AskedPartition[];
  readonly maxBytes?: number;
  readonly minBytes?: number;
  readonly maxWaitMs?: number;
  readonly isolationLevel?: number;
  readonly replicaId?: number;
  readonly version?: number;
}

const VERSION = 12;

export class SessionClient {
  readonly #broker: TestBroker;
  readonly peer: FakePeer;
  sessionId = 0;
  epoch = 0;

  constructor(broker: TestBroker, peer = broker.transport.connect()) {
    this.#broker = broker;
    this.peer = peer;
  }

  frame(poll: SessionPoll): Uint8Array {
    const version = poll.version ?? VERSION;
    const named = ({ topic, topicId }: AskedPartition) => ({
      topic,
      ...(topicId === undefined ? {} : { topicId }),
    });
    return this.#broker.frame(1, version, (writer) =>
      writeFetchRequest(writer, version, {
        replicaId: poll.replicaId ?? -1,
        maxWaitMs: poll.maxWaitMs ?? 0,
        minBytes: poll.minBytes ?? 1,
        maxBytes: poll.maxBytes ?? 1 << 20,
        isolationLevel: poll.isolationLevel ?? 0,
        sessionId: poll.sessionId ?? this.sessionId,
        sessionEpoch: poll.epoch ?? this.epoch,
        topics: (poll.asked ?? []).map((asked) => ({
          ...named(asked),
          partitions: [
            {
              partition: asked.index ?? 0,
              fetchOffset: asked.offset ?? 0,
              partitionMaxBytes: asked.maxBytes ?? 1 << 20,
              currentLeaderEpoch: asked.currentLeaderEpoch ?? -1,
              lastFetchedEpoch: asked.lastFetchedEpoch ?? -1,
            },
          ],
        })),
        forgottenTopicsData: (poll.forgotten ?? []).map((each) => ({
          ...named(each),
          partitions: [each.index ?? 0],
        })),
      }),
    );
  }

  /** Sends a poll in a tick of its own; the number of its answer. */
  send(poll: SessionPoll): number {
    const number = this.peer.received.length;
    this.#broker.transport.tick([this.peer, this.frame(poll)]);
    return number;
  }

  /** An answer; the next poll goes on from it. */
  answer(number: number, version = VERSION) {
    const answer = readFetchResponse(responseBody(this.peer.received[number]!, 1, version), version);
    if (answer.errorCode === 0 && answer.sessionId !== 0) {
      this.epoch = answer.sessionId === this.sessionId ? this.epoch + 1 : 1;
      this.sessionId = answer.sessionId;
    }
    const partitions = answer.responses.flatMap(({ topic, topicId, partitions: all }) =>
      all.map((each) => ({ ...each, topic, topicId, values: valuesOf(each.records) })),
    );
    return { ...answer, partitions };
  }

  async poll(poll: SessionPoll = {}) {
    const number = this.send(poll);
    await this.#broker.answers(this.peer, number + 1);
    return this.answer(number, poll.version);
  }

  /** A poll in short: `topic-index:values` or `topic-index!code` of each partition of the answer. */
  async news(poll: SessionPoll = {}): Promise<string[]> {
    const { errorCode, partitions } = await this.poll(poll);
    if (errorCode !== 0) return [`!${errorCode}`];
    return partitions.map(({ topic, partitionIndex, errorCode: code, values }) =>
      code === 0 ? `${topic}-${partitionIndex}:${values.join()}` : `${topic}-${partitionIndex}!${code}`,
    );
  }
}
