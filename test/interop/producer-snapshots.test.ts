/**
 * Producer state against directories that Apache Kafka 4.4 left: every snapshot reads and writes back as the same bytes,
 * and what is rebuilt from a log alone is what Kafka knew at its end. BROADSHEET_PROTOCOL names the folder that holds
 * `datadir/` (default ../shared/protocol).
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import {
  decodeSnapshot,
  encodeSnapshot,
  loadProducerState,
  ProducerSnapshots,
  snapshotName,
  snapshotOffset,
} from '../../src/log/producer-snapshot.ts';
import { type ProducerEntry, ProducerState } from '../../src/log/producer-state.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { MemoryEngine } from '../support/memory-log.ts';

const protocol =
  process.env.BROADSHEET_PROTOCOL ?? fileURLToPath(new URL('../../../shared/protocol', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'broadsheet-snapshots-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Kafka forgets at a start what was idle for a day by its timestamps; the data were made with old ones. */
const EXPIRED_BEFORE = 1_760_000_000_000 + 86_400_000;

function wholeBatches(bytes: Buffer): Buffer {
  let end = 0;
  while (end + 61 <= bytes.length) {
    const size = bytes.readInt32BE(end + 8) + 12;
    if (size <= 12 || end + size > bytes.length) break;
    end += size;
  }
  return bytes.subarray(0, end);
}

async function rebuild(
  folder: string,
  names: readonly string[],
): Promise<{ state: ProducerState; end: number }> {
  const engine = new MemoryEngine();
  const logs = names.filter((name) => name.endsWith('.log')).sort();
  engine.preload(
    '/d/p-0',
    new Map(logs.map((name) => [Number(name.slice(0, 20)), wholeBatches(readFileSync(join(folder, name)))])),
  );
  const log = await engine.open('/d/p-0', {
    segmentBytes: 2 ** 30,
    segmentMs: 2 ** 50,
    indexBytes: 1024,
    indexIntervalBytes: 4096,
    logStartOffset: 0,
    recoveryPoint: 0,
    cleanShutdown: true,
    now: 0,
  });
  const snapshots = new ProducerSnapshots(engine.files, silentLogger);
  return {
    state: await loadProducerState(log, snapshots, { now: 0, expirationMs: 2 ** 50 }),
    end: log.logEndOffset,
  };
}

const byId = (a: ProducerEntry, b: ProducerEntry) => a.producerId - b.producerId;

describe.each(['clean', 'killed'])('the %s directory', (name) => {
  const root = mkdtempSync(join(scratch, name));
  execFileSync('tar', ['xzSf', join(protocol, 'datadir', `kafka-4.4-${name}.tar.gz`), '-C', root]);
  const data = join(root, 'data');
  const partitions = readdirSync(data).filter((folder) => /-\d+$/.test(folder));

  it('has partitions', () => {
    expect(partitions.length).toBeGreaterThan(20);
  });

  it.each(partitions)('%s', async (partition) => {
    const folder = join(data, partition);
    const names = readdirSync(folder);
    const offsets = names
      .map(snapshotOffset)
      .filter((offset) => offset !== undefined)
      .sort((a, b) => a - b);
    for (const offset of offsets) {
      const bytes = readFileSync(join(folder, snapshotName(offset)));
      const again = encodeSnapshot(new ProducerState(decodeSnapshot(bytes)));
      expect(Buffer.from(again).equals(bytes), snapshotName(offset)).toBe(true);
    }
    const { state, end } = await rebuild(folder, names);
    const last = offsets[offsets.length - 1];
    if (last !== end) return;
    const kafka = decodeSnapshot(readFileSync(join(folder, snapshotName(end)))).sort(byId);
    const known = new Set(kafka.map((entry) => entry.producerId));
    const ours = decodeSnapshot(encodeSnapshot(state)).sort(byId);
    expect(ours.filter((entry) => known.has(entry.producerId))).toEqual(kafka);
    for (const entry of ours) {
      if (!known.has(entry.producerId)) expect(entry.lastTimestamp).toBeLessThan(EXPIRED_BEFORE);
    }
  });
});
