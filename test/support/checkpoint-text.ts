/** What our checkpoints hold, made of their lines. */
import { OffsetCheckpoint } from '../../src/log/checkpoints.ts';
import { LeaderEpochs } from '../../src/log/leader-epochs.ts';

/** An offset checkpoint of lines `topic partition offset`, or `topic partition offset topicId`. */
export function offsetsText(...lines: string[]): string {
  const checkpoint = new OffsetCheckpoint();
  for (const line of lines) {
    const [topic, partition, offset, topicId] = line.split(' ') as [string, string, string, string?];
    checkpoint.set(topic, Number(partition), Number(offset), topicId);
  }
  return checkpoint.text();
}

/** A leader epoch checkpoint of lines `epoch startOffset`. */
export function epochsText(...lines: string[]): string {
  const epochs = new LeaderEpochs();
  for (const line of lines) {
    const [epoch, startOffset] = line.split(' ') as [string, string];
    epochs.assign(Number(epoch), Number(startOffset));
  }
  return epochs.text();
}
