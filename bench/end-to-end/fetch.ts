/** Fetch-like answers, a header and a range of a file in the page cache: the native transport by sendfile and by copy
 * against a bare C loop over sendfile(2). One connection. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nativeTransport } from '../../src/broker/native-transport.ts';
import { nativeRanges } from '../../src/log/native-ranges.ts';
import { closeSegment, openSegment } from '../../test/support/native-files.ts';
import {
  type Comparison,
  compare,
  compile,
  firstLine,
  load,
  pinServer,
  type Scale,
  spawnPinned,
} from '../support.ts';

const REQUEST = 100;
const HEADER = 64;

export async function fetches(scale: Scale): Promise<Comparison[]> {
  pinServer();
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-fetch-'));
  const path = join(dir, 'segment');
  const block = Buffer.alloc(1 << 20, 'broadsheet ');
  for (let at = 0; at < scale.bytes; at += block.length) writeFileSync(path, block, { flag: 'a' });
  const segment = openSegment(path);
  const results: Comparison[] = [];
  for (const size of [4096, 65536, 1 << 20]) {
    const server = spawnPinned(
      'server',
      compile('sendfile-server'),
      [path, REQUEST, HEADER, size].map(String),
    );
    const bare = Number(await firstLine(server));
    for (const fetchPath of ['sendfile', 'copy'] as const) {
      const transport = nativeTransport({
        maxFrameBytes: 1 << 20,
        maxQueuedBytes: 16 << 20,
        fetchPath,
        sendBufferBytes: -1,
        receiveBufferBytes: -1,
      });
      const { port } = await transport.listen('127.0.0.1', 0);
      const header = Buffer.alloc(HEADER);
      let position = 0;
      transport.start({
        onAccept() {},
        onFrame(connection) {
          if (position + size > scale.bytes) position = 0;
          transport.send(connection, [header, { source: nativeRanges, segment, position, length: size }]);
          position += size;
        },
        onBadFrame() {},
        onClose() {},
        onTickEnd() {},
      });
      const measure = (to: number, pid?: number) => () =>
        load({
          port: to,
          server: pid,
          connections: 1,
          depth: 1,
          requestBytes: REQUEST,
          answerBytes: HEADER + size,
          seconds: scale.seconds,
        });
      const expected = size === 1 << 20 ? 0.9 : undefined;
      const name = `fetch, ${size / 1024} KiB by ${fetchPath}`;
      results.push(
        await compare(name, '/s', scale.rounds, measure(port), measure(bare, server.pid), expected),
      );
      await transport.close(0);
    }
    server.kill();
  }
  closeSegment(segment);
  rmSync(dir, { recursive: true });
  return results;
}
