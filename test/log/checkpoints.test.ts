import { describe, expect, it } from 'vitest';
import {
  cleanShutdownText,
  OffsetCheckpoint,
  parsePartitionMetadata,
  partitionMetadataText,
  readCleanShutdown,
  readOffsetCheckpoint,
} from '../../src/log/checkpoints.ts';
import { LeaderEpochs } from '../../src/log/leader-epochs.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { epochsText } from '../support/checkpoint-text.ts';
import { MemoryFiles } from '../support/memory-log.ts';

/** As Apache Kafka 4.4 wrote it. */
const KAFKA_TEXT = '0\n3\ncompacted-swept 0 1186\ncompacted 0 1187\n__consumer_offsets 1 947\n';

/** Every flipped bit of a text, and every beginning of it. */
function* harmed(text: string): Generator<string> {
  for (let at = 0; at < text.length; at++) {
    yield text.slice(0, at);
    for (let bit = 0; bit < 8; bit++) {
      const flipped = String.fromCharCode(text.charCodeAt(at) ^ (1 << bit));
      yield text.slice(0, at) + flipped + text.slice(at + 1);
    }
  }
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    expect(error).toMatchObject({ code: 'CORRUPT' });
    return undefined;
  }
}

const ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';

describe('OffsetCheckpoint', () => {
  it('reads and writes what Kafka writes', () => {
    const checkpoint = OffsetCheckpoint.parse(KAFKA_TEXT);
    expect(checkpoint.get('compacted-swept', 0)).toBe(1186);
    expect(checkpoint.get('compacted-swept', 1)).toBeUndefined();
    expect(checkpoint.checked).toBe(false);
    const text = checkpoint.text();
    expect(text).toBe(`${KAFKA_TEXT.replace('\n3\n', '\n4\n')}#crc32c 0 3184236475\n`);
    const again = OffsetCheckpoint.parse(text);
    expect(again.checked).toBe(true);
    expect([...again.entries()]).toEqual([...checkpoint.entries()]);
    expect(new OffsetCheckpoint().text()).toBe('0\n1\n#crc32c 0 0\n');
    expect(OffsetCheckpoint.parse('').size).toBe(0);
    expect(OffsetCheckpoint.parse('0\n0\n').size).toBe(0);
  });

  it('knows whose an offset is: that of another topic with its name is none', () => {
    const checkpoint = new OffsetCheckpoint();
    checkpoint.set('t', 0, 7, ID);
    checkpoint.set('t', 1, 9, ID);
    checkpoint.set('u', 0, 5);
    const text = checkpoint.text();
    expect(text.split('\n').slice(0, 6)).toEqual(['0', '5', 't 0 7', 't 1 9', 'u 0 5', `t#${ID} 0 0`]);
    const read = OffsetCheckpoint.parse(text);
    expect([...read.entries()]).toEqual([...checkpoint.entries()]);
    expect(read.of('t', ID, 1)).toEqual({ offset: 9, checked: true });
    expect(read.of('t', ID, 2)).toEqual({ offset: 0, checked: false });
    expect(read.of('t', ID.replace('O', 'P'), 1)).toEqual({ offset: 0, checked: false });
    // Without an id, as earlier versions wrote it and Apache Kafka does, nothing vouches for it.
    expect(read.of('u', ID, 0)).toEqual({ offset: 5, checked: false });
    expect(OffsetCheckpoint.parse('0\n1\nt 0 7\n').of('t', ID, 0)).toEqual({ offset: 7, checked: false });
  });

  it('never gives another offset for a flipped bit or a missing byte', () => {
    const checkpoint = OffsetCheckpoint.parse(KAFKA_TEXT);
    checkpoint.set('t', 0, 7, ID);
    const text = checkpoint.text();
    const faults = [...harmed(text)].filter((harmedText) => {
      const read = parsed(() => OffsetCheckpoint.parse(harmedText));
      return (
        read !== undefined &&
        read.size > 0 &&
        [...checkpoint.entries()].some((each) => read.get(each.topic, each.partition) !== each.offset)
      );
    });
    expect(faults).toEqual([]);
    const epochs = ['0 0', '1 10', '12 250'];
    const history = epochsText(...epochs);
    const wrong = [...harmed(history)].filter((harmedText) => {
      const read = parsed(() => LeaderEpochs.parse(harmedText));
      return read !== undefined && read.entries.length > 0 && read.text() !== history;
    });
    expect(wrong).toEqual([]);
  });

  it.each([
    ['cut in a line', KAFKA_TEXT.slice(0, -3)],
    ['cut between lines', KAFKA_TEXT.slice(0, KAFKA_TEXT.lastIndexOf('__'))],
    ['zeros', '\0\0\0\0'],
    ['another version', KAFKA_TEXT.replace('0\n', '1\n')],
    ['a negative offset', '0\n1\nt 0 -5\n'],
    ['a huge offset', '0\n1\nt 0 9999999999999999\n'],
    ['a missing field', '0\n1\nt 0\n'],
    ['a count that is no number', '0\nx\nt 0 1\n'],
  ])('costs a warning, not the start: %s', async (_, text) => {
    expect(() => OffsetCheckpoint.parse(text)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
    const files = new MemoryFiles();
    files.content.set('/d/c', Buffer.from(text));
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (_fields: object, message: string) => warnings.push(message) };
    expect((await readOffsetCheckpoint(files, '/d/c', logger)).size).toBe(0);
    expect(warnings).toHaveLength(1);
  });

  it('takes a missing file for an empty one', async () => {
    expect((await readOffsetCheckpoint(new MemoryFiles(), '/d/c', silentLogger)).size).toBe(0);
  });
});

describe('the clean shutdown file', () => {
  it.each([
    ['{"version":0,"brokerEpoch":214}', 214],
    ['', -1],
    ['null', -1],
    ['{"version":0}', -1],
  ])('reads %j', async (text, epoch) => {
    const files = new MemoryFiles();
    files.content.set('/d/.kafka_cleanshutdown', Buffer.from(text));
    expect(await readCleanShutdown(files, '/d')).toBe(epoch);
  });

  it('is missing after an unclean stop', async () => {
    expect(await readCleanShutdown(new MemoryFiles(), '/d')).toBeUndefined();
  });

  it('writes what Kafka writes', () => {
    expect(cleanShutdownText(214)).toBe('{"version":0,"brokerEpoch":214}');
  });
});

describe('partition.metadata', () => {
  it('round-trips without a newline at the end', () => {
    const text = partitionMetadataText('OeXl6uY5Tm2ppr3C3B0cZQ');
    expect(text).toBe('version: 0\ntopic_id: OeXl6uY5Tm2ppr3C3B0cZQ');
    expect(parsePartitionMetadata(text)).toBe('OeXl6uY5Tm2ppr3C3B0cZQ');
    expect(parsePartitionMetadata(`${text}\n`)).toBe('OeXl6uY5Tm2ppr3C3B0cZQ');
  });

  it.each(['', 'version: 0', 'version: 1\ntopic_id: OeXl6uY5Tm2ppr3C3B0cZQ', 'version: 0\ntopic_id: short'])(
    'refuses %j',
    (text) => {
      expect(() => parsePartitionMetadata(text)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
    },
  );
});
