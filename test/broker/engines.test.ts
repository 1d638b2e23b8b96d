/** Which engine runs: with the addon, and without it. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Choice, ChoiceCase } from '../support/engine-choice.ts';

const TYPESCRIPT = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href];
const SCRIPT = fileURLToPath(new URL('../support/engine-choice.ts', import.meta.url));

function choose(cases: readonly ChoiceCase[], env: Record<string, string>): Choice[] {
  const child = spawnSync(process.execPath, [...TYPESCRIPT, SCRIPT, JSON.stringify(cases)], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  expect({ status: child.status, stderr: child.stderr }).toEqual({ status: 0, stderr: '' });
  return child.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Choice);
}

const ours = (engine: string, transport = engine) => ({ engine, transport, warnings: [] });

describe('with the addon', () => {
  it('native is the default, and the transport follows the engine', () => {
    const cases: [ChoiceCase, object][] = [
      [{ config: {} }, ours('native')],
      [{ config: {}, ci: 'true' }, ours('native')],
      [{ config: { engine: 'native' } }, ours('native')],
      [{ config: { engine: 'js' } }, ours('js')],
      [{ config: { engine: 'js' }, ci: 'true' }, ours('js')],
      [{ config: { transport: 'native' } }, ours('native')],
      [{ config: { transport: 'js' } }, ours('native', 'js')],
      [{ config: { engine: 'js', transport: 'native' } }, { code: 'INVALID_CONFIG' }],
      [{ config: { engine: 'c' } }, { code: 'INVALID_CONFIG' }],
    ];
    expect(
      choose(
        cases.map(([each]) => each),
        {},
      ),
    ).toMatchObject(cases.map(([, expected]) => expected));
  });
});

describe('without it', () => {
  it('the JS engine takes over and says so, unless native is asked for or CI is set', () => {
    const instead = {
      engine: 'js',
      transport: 'js',
      warnings: [
        expect.stringMatching(
          /addon does not load .*no-such\.node.*JS engine takes its place.*engine=native/s,
        ),
      ],
    };
    const refused = { code: 'ADDON_UNAVAILABLE', message: expect.stringContaining('no-such.node') };
    const cases: [ChoiceCase, object][] = [
      [{ config: {} }, instead],
      [{ config: {}, ci: 'false' }, instead],
      [{ config: { transport: 'js' } }, instead],
      [{ config: { engine: 'js' } }, ours('js')],
      [{ config: { engine: 'js' }, ci: 'true' }, ours('js')],
      [{ config: {}, ci: 'true' }, refused],
      [{ config: { engine: 'native' } }, refused],
      [{ config: { engine: 'native', transport: 'js' } }, refused],
      [{ config: { transport: 'native' } }, refused],
    ];
    const answers = choose(
      cases.map(([each]) => each),
      { BROADSHEET_ADDON: '/no-such.node' },
    );
    expect(answers).toMatchObject(cases.map(([, expected]) => expected));
    for (const answer of answers) {
      if ('warnings' in answer && answer.warnings.length > 0) expect(answer.warnings).toHaveLength(1);
    }
  });
});
