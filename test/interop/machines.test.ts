/** The prebuilt binaries that this machine can't run by itself: the package as installed there, a broker and its clients. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MACHINES, nodeOf } from '../support/machines.ts';
import { HAS_PREBUILT, install, pack, run, serving } from '../support/packed.ts';

/** Lines of 1 kB, so that what a fetch returns is sent by sendfile. */
const RECORDS = Array.from({ length: 2000 }, (_, n) => `${n} ${'x'.repeat(1000)}\n`).join('');

let scratch = '';
let tarball = '';

beforeAll(async () => {
  if (!HAS_PREBUILT) throw new Error('`npm run build:prebuilds` makes the binaries that this runs');
  scratch = mkdtempSync(join(tmpdir(), 'broadsheet-machines-'));
  tarball = await pack(scratch);
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe.each(MACHINES)('$name', (machine) => {
  it('takes records and gives them back by sendfile', async () => {
    const { name, cpu, libc } = machine;
    const node = await nodeOf(machine);
    const report = '[process.arch, process.report.getReport().header.glibcVersionRuntime !== undefined]';
    const { stdout } = await run(node, ['-p', `JSON.stringify(${report})`]);
    expect(JSON.parse(stdout)).toEqual([cpu, libc === 'glibc']);

    const project = join(scratch, name);
    const platform = ['--os=linux', `--cpu=${cpu}`, `--libc=${libc}`];
    await install(project, [tarball], ['--ignore-scripts', ...platform]);
    const installed = join(project, 'node_modules/broadsheet');
    const binary = join(installed, `prebuilds/linux-${cpu}/broadsheet.${libc}.node`);
    const checksum = `require('${binary}').crc32cBy(Buffer.from('123456789'), 0, 9, 'hardware')`;
    expect((await run(node, ['-p', checksum])).stdout).toBe(`${0xe3069283}\n`);

    const cli = join(installed, 'dist/cli.js');
    const start = ['start', '--engine', 'native', '--data', join(project, 'data'), '--host', '127.0.0.1'];
    const sends = ['--port', '0', '--set', 'fetch.path=sendfile'];
    await serving([node, cli, ...start, ...sends], scratch, async (address) => {
      const command = async (text: string, input = '') => {
        const running = run(node, [cli, ...text.split(' '), '-b', address], { maxBuffer: 1 << 24 });
        running.child.stdin!.end(input);
        return (await running).stdout;
      };
      await command('produce machines', RECORDS);
      expect((await command('consume machines')) === RECORDS).toBe(true);
    });
  });
});
