import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { createLogger, LineLogger, type LogLevel } from '../../src/runtime/logging.ts';

function collected(level: LogLevel) {
  const lines: string[] = [];
  return { lines, logger: new LineLogger(level, {}, (line) => lines.push(line)) };
}

describe('the logger', () => {
  it('writes one JSON object a line: level, time, fields, message', () => {
    const { lines, logger } = collected('info');
    logger.warn({ topic: 'a\n"b"', count: 2n, at: { deep: [1] } }, 'something\nhappened');
    expect(lines).toHaveLength(1);
    expect(lines[0]!.indexOf('\n')).toBe(lines[0]!.length - 1);
    const { time, ...rest } = JSON.parse(lines[0]!);
    expect(rest).toEqual({
      level: 40,
      topic: 'a\n"b"',
      count: '2',
      at: { deep: [1] },
      msg: 'something\nhappened',
    });
    expect(new Date(time).toISOString()).toBe(time);
  });

  it('writes what its level lets through, each level with its number', () => {
    const of = (level: LogLevel) => {
      const { lines, logger } = collected(level);
      for (const method of ['debug', 'info', 'warn', 'error'] as const) logger[method]({}, method);
      return lines.map((line) => [JSON.parse(line).level, JSON.parse(line).msg]);
    };
    const all = [
      [20, 'debug'],
      [30, 'info'],
      [40, 'warn'],
      [50, 'error'],
    ];
    expect(of('debug')).toEqual(all);
    expect(of('info')).toEqual(all.slice(1));
    expect(of('warn')).toEqual(all.slice(2));
    expect(of('error')).toEqual(all.slice(3));
    expect(of('silent')).toEqual([]);
  });

  it('gives children the fields and the level of now, and levels of their own', () => {
    const { lines, logger } = collected('error');
    const child = logger.child({ part: 'logs' }) as LineLogger;
    child.level = 'debug';
    child.child({ deep: 1 }).debug({ own: 2 }, 'heard');
    logger.info({}, 'not heard');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { part: 'logs', deep: 1, own: 2, msg: 'heard' },
    ]);
  });

  it('tells an error by its stack', () => {
    const { lines, logger } = collected('info');
    logger.error({ error: new RangeError('too far') }, 'failed');
    expect(JSON.parse(lines[0]!).error).toMatch(/^RangeError: too far\n/);
  });

  it('goes on when nobody reads stderr any more', () => {
    const url = new URL('../../src/runtime/logging.ts', import.meta.url);
    const loader = new URL('../../scripts/typescript.js', import.meta.url);
    const code = `const { createLogger } = await import(${JSON.stringify(url.href)});
      setTimeout(() => { createLogger('info').info({}, 'lost'); process.stdout.write('alive'); }, 50);`;
    const node = `"${process.execPath}" --import "${loader.href}" --input-type=module -e "$CODE"`;
    // stderr is a pipe whose reader ends at once; what is left on stdout is the process's own word.
    const script = `{ ${node} 2>&1 1>&3 | true; } 3>&1`;
    const { stdout } = spawnSync('sh', ['-c', script], {
      encoding: 'utf8',
      env: { ...process.env, CODE: code },
    });
    expect(stdout).toBe('alive');
    expect(createLogger('silent')).toBeInstanceOf(LineLogger);
  });
});
