/** The offsets that an OffsetCommit or a TxnOffsetCommit names, and the code of each: some can be judged from the topics alone, the
 * others by the group. */
import type { OffsetToCommit } from '../../group/offset-manager.ts';
import { KafkaError } from '../../protocol/errors.ts';
import type { BrokerContext } from '../context.ts';

/** As either request has it, read; `topicId` counts where topics go by id, `name` elsewhere. */
export interface AskedTopic {
  readonly name: string;
  readonly topicId: string;
  readonly partitions: readonly {
    readonly partitionIndex: number;
    readonly committedOffset: number;
    readonly committedLeaderEpoch: number;
    readonly committedMetadata: string | null;
  }[];
}

export class AskedOffsets {
  /** Of partitions that exist; the group judges them. */
  readonly offsets: OffsetToCommit[] = [];
  readonly #topics: readonly AskedTopic[];
  readonly #byId: boolean;
  /** Codes by topic and partition. */
  readonly #codes: number[][];
  /** Where the code of each of `offsets` stands. */
  readonly #places: { readonly codes: number[]; readonly at: number }[] = [];

  constructor(topics: readonly AskedTopic[], byId: boolean, broker: BrokerContext) {
    this.#topics = topics;
    this.#byId = byId;
    this.#codes = topics.map((topic) => topic.partitions.map(() => KafkaError.NONE));
    topics.forEach((topic, t) => {
      this.#sort(topic, this.#codes[t]!, broker);
    });
  }

  #sort(topic: AskedTopic, codes: number[], { image }: BrokerContext): void {
    const known = this.#byId ? image.topicsById.get(topic.topicId) : image.topicsByName.get(topic.name);
    topic.partitions.forEach((partition, at) => {
      const { partitionIndex } = partition;
      if (known === undefined && this.#byId) codes[at] = KafkaError.UNKNOWN_TOPIC_ID;
      else if (known?.partitions.has(partitionIndex) !== true)
        codes[at] = KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
      else {
        this.#places.push({ codes, at });
        this.offsets.push({
          topic: known.name,
          topicId: known.id,
          partition: partitionIndex,
          offset: partition.committedOffset,
          leaderEpoch: partition.committedLeaderEpoch,
          metadata: partition.committedMetadata,
        });
      }
    });
  }

  /** What the group says of each of `offsets`. */
  judge(codes: readonly number[]): void {
    codes.forEach((code, i) => {
      const { codes: own, at } = this.#places[i]!;
      own[at] = code;
    });
  }

  /** One code for each of `offsets`. */
  refuse(code: number): void {
    for (const { codes, at } of this.#places) codes[at] = code;
  }

  /** One code for all that was asked. */
  refuseAll(code: number): void {
    for (const codes of this.#codes) codes.fill(code);
  }

  /** The topics of the response. */
  answers() {
    return this.#topics.map(({ name, topicId, partitions }, t) => ({
      ...(this.#byId ? { topicId } : { name }),
      partitions: partitions.map(({ partitionIndex }, at) => ({
        partitionIndex,
        errorCode: this.#codes[t]![at]!,
      })),
    }));
  }
}
