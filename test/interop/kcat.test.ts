/** The main job at size: kcat sends a real text line by line in each codec, and reads back the same bytes: at once, after
 * SIGKILL and after SIGTERM. */
import { closeSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { COMBINATIONS } from '../support/combinations.ts';
import { kcatRead, type Measured, outputs } from '../support/command.ts';
import { writeRealText } from '../support/real-text.ts';
import { scaled } from '../support/scale.ts';

const MIB = 1024 * 1024;
const TEXT_BYTES = scaled(24 * MIB, 1024 * MIB);
const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-kcat-'));
const text = join(dir, 'text');
const data = join(dir, 'data');
let sent: Measured;
let broker: BrokerProcess;

beforeAll(async () => {
  sent = await writeRealText(text, TEXT_BYTES);
  broker = await BrokerProcess.start(data);
}, 600_000);
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** Codecs of the first batches in the topic's log: bits 0 to 2 of their attributes. */
function storedCodecs(topic: string): Set<number> {
  const bytes = Buffer.alloc(4 * MIB);
  const file = openSync(join(data, `${topic}-0`, `${'0'.repeat(20)}.log`), 'r');
  const length = readSync(file, bytes);
  closeSync(file);
  const codecs = new Set<number>();
  for (let at = 0; at + 61 <= length; at += 12 + bytes.readInt32BE(at + 8)) {
    codecs.add(bytes.readInt16BE(at + 21) & 7);
  }
  // librdkafka leaves a batch as it is where compression does not pay.
  codecs.delete(0);
  return codecs;
}

describe('kcat', () => {
  it('has a text of the size that was asked for', () => {
    expect(sent.bytes).toBeGreaterThanOrEqual(TEXT_BYTES);
    expect(sent.lines).toBeGreaterThan(TEXT_BYTES / 500);
  });

  it.each(CODECS)('sends it in %s and reads the same bytes', async (codec) => {
    await outputs('kcat', [
      '-b',
      broker.address,
      '-P',
      '-t',
      `text-${codec}`,
      '-p',
      '0',
      '-z',
      codec,
      '-l',
      text,
    ]);
    expect(await kcatRead(broker.address, `text-${codec}`)).toEqual(sent);
    expect([...storedCodecs(`text-${codec}`)]).toEqual(codec === 'none' ? [] : [CODECS.indexOf(codec)]);
  });

  it('reads the same bytes after SIGKILL', async () => {
    await broker.kill();
    broker = await BrokerProcess.start(data);
    for (const codec of CODECS) expect(await kcatRead(broker.address, `text-${codec}`), codec).toEqual(sent);
  });

  it('reads the same bytes after SIGTERM', async () => {
    await broker.stop();
    broker = await BrokerProcess.start(data);
    for (const codec of CODECS) expect(await kcatRead(broker.address, `text-${codec}`), codec).toEqual(sent);
  });
});

describe.each(COMBINATIONS.slice(scaled(2, 1)))('kcat, $title', ({ engine, transport }) => {
  it('sends and reads the same bytes, also after SIGKILL, and then from the native engine', async () => {
    const own = join(dir, `${engine}-${transport}`);
    const config = { engine, transport };
    let other = await BrokerProcess.start(own, { config });
    try {
      expect(other.output).toContain(`"engine":"${engine}","transport":"${transport}"`);
      const options = ['-b', other.address, '-P', '-t', 'text', '-p', '0', '-z', 'zstd', '-l', text];
      await outputs('kcat', options);
      expect(await kcatRead(other.address, 'text')).toEqual(sent);
      await other.kill();
      other = await BrokerProcess.start(own, { config });
      expect(await kcatRead(other.address, 'text')).toEqual(sent);
      await other.stop();
      other = await BrokerProcess.start(own);
      expect(await kcatRead(other.address, 'text')).toEqual(sent);
    } finally {
      await other.kill();
    }
  });
});
