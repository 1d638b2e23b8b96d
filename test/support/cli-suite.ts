/** What every command that talks to a broker must do, whoever the broker is. */
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { CliOf } from './cli.ts';

interface TopicsDocument {
  topics: {
    name: string;
    id: string;
    configs?: { name: string; value: string; source: string }[];
    partitions: { partition: number; leader: number; startOffset: number; endOffset: number }[];
  }[];
}

interface GroupsDocument {
  groups: {
    group: string;
    type: string;
    state: string;
    members: { memberId: string; assignment: { topic: string; partitions: number[] }[] }[];
    offsets: {
      topic: string;
      partition: number;
      committed: number | null;
      end: number;
      lag: number | null;
    }[];
    totalLag: number | null;
  }[];
}

interface ResetDocument {
  dryRun: boolean;
  partitions: { topic: string; partition: number; before: number | null; after: number }[];
}

const lines = (text: string) => text.split('\n').filter((line) => line !== '');
const numbers = (count: number) => Array.from({ length: count }, (_, n) => `${n}\n`).join('');

/** For topics with records of long ago, which retention would delete within a minute. */
const KEEPING = ['-c', 'retention.ms=-1'] as const;

/** `cli` is called when the tests run: the broker may start after this. */
export function cliSuite(cli: () => CliOf): void {
  let serial = 0;
  const fresh = async (partitions = 1, ...options: string[]): Promise<string> => {
    const name = `cli-${++serial}`;
    await cli().text(['topic', 'create', name, '-p', String(partitions), ...options]);
    return name;
  };

  describe('topics', () => {
    it('are created, described, altered and deleted', async () => {
      const name = await fresh(2, '-c', 'retention.ms=100000');
      const { topics } = await cli().json<TopicsDocument>(['topic', 'describe', name]);
      expect(topics).toHaveLength(1);
      expect(topics[0]).toMatchObject({ name, internal: false });
      expect(topics[0]!.id).toMatch(/^[\w-]{22}$/);
      expect(topics[0]!.configs).toEqual([{ name: 'retention.ms', value: '100000', source: 'topic' }]);
      expect(topics[0]!.partitions.map(({ partition, endOffset }) => [partition, endOffset])).toEqual([
        [0, 0],
        [1, 0],
      ]);
      expect(await cli().text(['topic', 'alter', name, '-p', '4'])).toContain('4 partitions');
      const listed = await cli().json<TopicsDocument>(['topic', 'list']);
      expect(listed.topics.find((topic) => topic.name === name)).toMatchObject({ partitions: 4 });
      expect(await cli().text(['topic', 'list'])).toMatch(new RegExp(`^${name} +4 +1$`, 'm'));
      await cli().text(['topic', 'delete', name]);
      expect(
        (await cli().json<TopicsDocument>(['topic', 'list'])).topics.map((each) => each.name),
      ).not.toContain(name);
    });

    it('fail with what to do', async () => {
      const name = await fresh();
      const again = await cli().failure(['topic', 'create', name]);
      expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('TOPIC_ALREADY_EXISTS') });
      expect(await cli().text(['topic', 'create', name, '--if-not-exists'])).toContain('exists already');
      const missing = await cli().failure(['topic', 'describe', 'cli-missing']);
      expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('broadsheet topic list') });
      expect((await cli().failure(['topic', 'delete', 'cli-missing'])).code).toBe(1);
      expect(await cli().text(['topic', 'delete', 'cli-missing', '--if-exists'])).toContain('does not exist');
      expect((await cli().failure(['topic', 'alter', name, '-p', '1'])).code).toBe(1);
      const config = await cli().failure(['topic', 'create', 'cli-x', '-c', 'retention.ms=soon']);
      expect(config).toMatchObject({ code: 1, stderr: expect.stringContaining('INVALID_CONFIG') });
      expect(await cli().text(['topic', 'create', 'cli-x', '--validate-only'])).toContain('could be created');
      expect(await cli().json(['topic', 'create', 'cli-x', '-p', '3', '--validate-only'])).toEqual({
        topics: [{ name: 'cli-x', id: null, partitions: 3, created: false }],
      });
      for (const command of ['produce', 'consume']) {
        expect(await cli().failure([command, 'a b'], 'x\n')).toEqual({
          code: 1,
          stderr: expect.stringMatching(/INVALID_TOPIC_EXCEPTION; a topic's name has at most 249 letters/),
        });
      }
      expect((await cli().failure(['topic', 'describe', 'cli-x'])).code).toBe(1);
    });

    it('lose the oldest records', async () => {
      const name = await fresh(2);
      await cli().text(['produce', name, '-p', '0'], numbers(10));
      await cli().text(['produce', name, '-p', '1'], numbers(5));
      await cli().text(['topic', 'delete-records', `${name}:0`, '--before', '4']);
      expect(await cli().text(['consume', `${name}:0`])).toBe('4\n5\n6\n7\n8\n9\n');
      expect(await cli().text(['consume', `${name}:1`])).toBe(numbers(5));
      await cli().text(['topic', 'trim', name, '--before', 'latest']);
      expect(await cli().text(['consume', name])).toBe('');
      const { topics } = await cli().json<TopicsDocument>(['topic', 'describe', name]);
      expect(topics[0]!.partitions.map(({ startOffset }) => startOffset)).toEqual([10, 5]);
      const past = await cli().run(['topic', 'trim', `${name}:0`, '--before', '99']);
      expect(past.code).toBe(1);
      expect(past.stdout.toString()).toContain('OFFSET_OUT_OF_RANGE');
    });
  });

  describe('records', () => {
    it('have keys, headers, timestamps, partitions and nulls', async () => {
      const name = await fresh(3, ...KEEPING);
      const input = 'h=1,g=\tk\t2\t1700000000000\tvalue\twith\ttabs\n\tNULL\t2\t1700000000001\tNULL\n';
      const fields = 'headers,key,partition,timestamp,value';
      await cli().text(['produce', name, '-f', fields, '--null', 'NULL', '-H', 'all=x'], input);
      expect(
        await cli().text([
          'consume',
          name,
          '-f',
          'partition,offset,timestamp,headers,key,value',
          '--null',
          '-',
        ]),
      ).toBe('2\t0\t1700000000000\tall=x,h=1,g=\tk\tvalue\twith\ttabs\n2\t1\t1700000000001\tall=x\t-\t-\n');
      expect(lines(await cli().text(['consume', name, '--json'])).map((line) => JSON.parse(line))).toEqual([
        {
          topic: name,
          partition: 2,
          offset: 0,
          timestamp: 1700000000000,
          key: 'k',
          value: 'value\twith\ttabs',
          headers: [
            { key: 'all', value: 'x' },
            { key: 'h', value: '1' },
            { key: 'g', value: '' },
          ],
        },
        {
          topic: name,
          partition: 2,
          offset: 1,
          timestamp: 1700000000001,
          key: null,
          value: null,
          headers: [{ key: 'all', value: 'x' }],
        },
      ]);
    });

    it('go from topic to topic as JSON, bytes that are no text included', async () => {
      const [from, to] = [await fresh(), await fresh()];
      await cli().text(['produce', from, '--chunk', '700', '-k', 'é'], randomBytes(5000));
      const json = await cli().text(['consume', from, '--json']);
      await cli().text(['produce', to, '--json'], json);
      expect(await cli().text(['consume', to, '--json'])).toBe(json.replaceAll(from, to));
    });

    it.each(['none', 'gzip', 'snappy', 'lz4', 'zstd'])('come back byte by byte through %s', async (codec) => {
      const name = await fresh();
      const bytes = Buffer.concat([randomBytes(300_000), Buffer.alloc(300_000, 'text\n')]);
      await cli().text(['produce', name, '--chunk', '10k', '-z', codec], bytes);
      const { stdout, code } = await cli().run(['consume', name, '-d', '']);
      expect(code).toBe(0);
      expect(stdout.equals(bytes)).toBe(true);
    });

    it('are chosen by offset, from the end, by time, and counted', async () => {
      const name = await fresh(1, ...KEEPING);
      const input = Array.from({ length: 10 }, (_, n) => `${1_700_000_000_000 + n * 1000}\t${n}\n`).join('');
      await cli().text(['produce', name, '-f', 'timestamp,value'], input);
      const consumed = async (...args: string[]) =>
        lines(await cli().text(['consume', name, ...args])).join(' ');
      expect(await consumed('--from', '7')).toBe('7 8 9');
      expect(await consumed('--from', '-2')).toBe('8 9');
      expect(await consumed('--from=-20', '-n', '3')).toBe('0 1 2');
      expect(await consumed('--from', '@1700000004500')).toBe('5 6 7 8 9');
      expect(await consumed('--from', '2023-11-14T22:13:28.000Z')).toBe('8 9');
      expect(await consumed('--from', '1m')).toBe('');
      expect(await consumed('--from', 'end')).toBe('');
      const past = await cli().failure(['consume', name, '--from', '11', '--follow']);
      expect(past).toMatchObject({ code: 1, stderr: expect.stringContaining('OFFSET_OUT_OF_RANGE') });
    });

    it('of one key go to one partition, the same for every client', async () => {
      const name = await fresh(16);
      await cli().text(['produce', name, '-f', 'key,value'], 'foobar\t1\nabc\t2\nfoobar\t3\n21\t4\n');
      const found = lines(await cli().text(['consume', name, '-f', 'key,partition,value']));
      // murmur2 of the keys, as Kafka's own tests state it: foobar -790332482, abc 479470107, 21 -973932308.
      const partition = (hash: number) => (hash & 0x7fffffff) % 16;
      expect(found.sort()).toEqual(
        [
          `foobar\t${partition(-790332482)}\t1`,
          `abc\t${partition(479470107)}\t2`,
          `foobar\t${partition(-790332482)}\t3`,
          `21\t${partition(-973932308)}\t4`,
        ].sort(),
      );
    });

    it('are followed until Ctrl-C', async () => {
      const name = await fresh();
      const run = cli().start(['consume', name, '--follow']);
      await cli().text(['produce', name], 'one\ntwo\n');
      await run.until((stdout) => stdout === 'one\ntwo\n');
      await cli().text(['produce', name, '--acks', '0'], 'three\n');
      await run.until((stdout) => stdout === 'one\ntwo\nthree\n');
      run.child.kill('SIGINT');
      expect(await run.ended).toMatchObject({ code: 0, stderr: '3 records read\n' });
    });

    it('that are too large are named, others are written, and the exit code says so', async () => {
      const name = await fresh(1, '-c', 'max.message.bytes=2000');
      const input = `small\n${'x'.repeat(3000)}\nalso small\n`;
      const { code, stderr } = await cli().failure(['produce', name], input);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^record 2 was not written: .*MESSAGE_TOO_LARGE/m);
      expect(stderr).toContain('1 of 3 records were not written');
      expect(await cli().text(['consume', name])).toBe('small\nalso small\n');
    });

    it('that do not parse end the run, and those before are written', async () => {
      const name = await fresh();
      const { code, stderr } = await cli().failure(
        ['produce', name, '--json'],
        '{"value":"a"}\n{"valu":"b"}\n',
      );
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: [
          `1 record written to ${name}`,
          'record 2 was not written, nor what comes after it',
          'broadsheet: record 2 of the input: it has neither value nor valueBase64',
          '',
        ].join('\n'),
      });
      const field = await cli().failure(['produce', name, '-f', 'key,value'], 'no separator\n');
      expect(field).toMatchObject({ code: 1, stderr: expect.stringContaining('2 fields are expected') });
      const partition = await cli().failure(['produce', name, '-p', '7'], 'x\n');
      expect(partition).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('there is no partition 7'),
      });
      expect(await cli().text(['consume', name])).toBe('a\n');
    });
  });

  describe('groups', () => {
    const described = async (group: string) =>
      (await cli().json<GroupsDocument>(['group', 'describe', group])).groups[0]!;
    const committed = async (group: string) =>
      (await described(group)).offsets.map(({ partition, committed: at, lag }) => [partition, at, lag]);

    it('remember what was consumed', async () => {
      const name = await fresh(2);
      const group = `${name}-group`;
      await cli().text(['produce', name, '-p', '0'], numbers(10));
      await cli().text(['produce', name, '-p', '1'], numbers(10));
      expect(lines(await cli().text(['consume', name, '-g', group, '-n', '13']))).toHaveLength(13);
      const after = await described(group);
      expect(after).toMatchObject({ type: 'classic', state: 'Empty', members: [], totalLag: 7 });
      expect(after.offsets.reduce((sum, { committed: at }) => sum + (at ?? 0), 0)).toBe(13);
      expect(lines(await cli().text(['consume', name, '-g', group]))).toHaveLength(7);
      expect(await committed(group)).toEqual([
        [0, 10, 0],
        [1, 10, 0],
      ]);
      expect(await cli().text(['group', 'list'])).toMatch(
        new RegExp(`^${group} +classic +Empty +consumer$`, 'm'),
      );
      expect(await cli().text(['group', 'list', '--state', 'stable'])).not.toContain(group);
    });

    it('are moved: earliest, latest, an offset, a time, a shift; dry or not', async () => {
      const name = await fresh(2, ...KEEPING);
      const group = `${name}-group`;
      const stamped = Array.from({ length: 10 }, (_, n) => `0\t${1_700_000_000_000 + n * 1000}\t${n}\n`).join(
        '',
      );
      await cli().text(['produce', name, '-f', 'partition,timestamp,value'], stamped);
      const reset = (...args: string[]) =>
        cli().json<ResetDocument>(['group', 'reset-offsets', group, ...args]);
      // The group need not be there.
      expect(await reset(name, '--to', 'latest')).toEqual({
        group,
        dryRun: false,
        partitions: [
          { topic: name, partition: 0, before: null, after: 10 },
          { topic: name, partition: 1, before: null, after: 0 },
        ],
      });
      expect((await reset('--all-topics', '--to', 'earliest', '--dry-run')).partitions[0]).toMatchObject({
        before: 10,
        after: 0,
      });
      expect(await committed(group)).toEqual([
        [0, 10, 0],
        [1, 0, 0],
      ]);
      expect((await reset(`${name}:0`, '--to', '4')).partitions).toHaveLength(1);
      expect(await committed(group)).toEqual([
        [0, 4, 6],
        [1, 0, 0],
      ]);
      expect((await reset(`${name}:0`, '--shift', '-3')).partitions[0]).toMatchObject({
        before: 4,
        after: 1,
      });
      expect((await reset(`${name}:0`, '--shift', '100')).partitions[0]).toMatchObject({ after: 10 });
      expect((await reset(`${name}:0`, '--to', '@1700000006000')).partitions[0]).toMatchObject({ after: 6 });
      expect((await reset(`${name}:0`, '--to', '2023-11-14T22:13:22.500Z')).partitions[0]).toMatchObject({
        after: 3,
      });
      expect((await reset(`${name}:0`, '--to=-2')).partitions[0]).toMatchObject({ after: 8 });
      expect(await cli().text(['consume', name, '-g', group])).toBe('8\n9\n');
      expect((await cli().failure(['group', 'reset-offsets', group, '--to', 'latest'])).code).toBe(2);
      expect((await cli().failure(['group', 'reset-offsets', group, name])).code).toBe(2);
    });

    it('share partitions between two members, and are not moved or deleted meanwhile', async () => {
      const name = await fresh(4);
      const group = `${name}-group`;
      const first = cli().start(['consume', name, '-g', group, '--follow', '-f', 'partition']);
      const second = cli().start(['consume', name, '-g', group, '--follow', '-f', 'partition']);
      for (;;) {
        const { groups } = JSON.parse(
          (await cli().run(['group', 'describe', group, '--json'])).stdout.toString() || '{"groups":[]}',
        ) as GroupsDocument;
        const shares =
          groups[0]?.members.map(({ assignment }) => assignment[0]?.partitions.length ?? 0) ?? [];
        if (groups[0]?.state === 'Stable' && shares.join() === '2,2') break;
      }
      const { offsets, totalLag } = await described(group);
      expect(totalLag).toBe(offsets.some(({ lag }) => lag === null) ? null : 0);
      const moved = await cli().failure(['group', 'reset-offsets', group, name, '--to', 'earliest']);
      expect(moved).toMatchObject({ code: 1, stderr: expect.stringMatching(/NON_EMPTY_GROUP.* 2 members/) });
      expect(await cli().failure(['group', 'delete', group])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('NON_EMPTY_GROUP'),
      });
      expect(await cli().failure(['group', 'delete-offsets', group, `${name}:0`])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/its members are subscribed to that topic; stop them first/),
      });
      for (const partition of ['0', '1', '2', '3'])
        await cli().text(['produce', name, '-p', partition], 'x\n');
      await first.until(() => lines(first.stdout).length + lines(second.stdout).length === 4);
      first.child.kill('SIGINT');
      expect((await first.ended).code).toBe(0);
      // The one that is left has it all.
      for (const partition of ['0', '1', '2', '3'])
        await cli().text(['produce', name, '-p', partition], 'y\n');
      const seen = lines(second.stdout).length;
      await second.until(() => lines(second.stdout).length >= Math.max(4, seen));
      await second.until(() => lines(first.stdout).length + lines(second.stdout).length === 8);
      second.child.kill('SIGINT');
      expect((await second.ended).code).toBe(0);
      expect(await described(group)).toMatchObject({ state: 'Empty', totalLag: 0 });
    });

    it('forget offsets, and go', async () => {
      const name = await fresh(2);
      const group = `${name}-group`;
      await cli().text(['group', 'reset-offsets', group, name, '--to', 'earliest']);
      await cli().text(['group', 'delete-offsets', group, `${name}:1`]);
      expect(await committed(group)).toEqual([[0, 0, 0]]);
      expect(await cli().text(['group', 'delete', group])).toBe(`group ${group} deleted\n`);
      const gone = await cli().failure(['group', 'describe', group]);
      expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('broadsheet group list') });
      expect((await cli().failure(['group', 'delete', group])).code).toBe(1);
    });
  });

  describe('configs', () => {
    interface ConfigDocument {
      configs: {
        name: string;
        value: string | null;
        source?: string;
        synonyms?: object[];
        documentation?: string;
      }[];
    }
    const of = async (...args: string[]) =>
      (await cli().json<ConfigDocument>(['config', 'describe', ...args])).configs;
    const value = async (name: string, ...args: string[]) =>
      (await of(...args)).find((config) => config.name === name)?.value;

    it('of topics are set, appended to and taken back', async () => {
      const name = await fresh();
      await cli().text(['config', 'set', 'topic', name, 'retention.ms=5000', 'cleanup.policy+=compact']);
      expect(await value('retention.ms', 'topic', name)).toBe('5000');
      expect(await value('cleanup.policy', 'topic', name)).toBe('delete,compact');
      await cli().text(['config', 'set', 'topic', name, 'cleanup.policy-=delete']);
      expect(await value('cleanup.policy', 'topic', name)).toBe('compact');
      await cli().text(['config', 'delete', 'topic', name, 'retention.ms']);
      expect(await value('retention.ms', 'topic', name)).toBeUndefined();
      expect(await value('retention.ms', 'topic', name, '--all')).toBe('604800000');
      const [first] = await of('topic', name, '--synonyms', '--documentation');
      expect(first!.synonyms!.length).toBeGreaterThan(0);
      expect(first!.documentation).toMatch(/\w/);
      const bad = await cli().failure(['config', 'set', 'topic', name, 'retention.ms=x', '--validate-only']);
      expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('INVALID_CONFIG') });
    });

    it('of brokers, groups and clients are set and taken back', async () => {
      await cli().text(['config', 'set', 'broker', '--default', 'log.retention.ms=700000']);
      expect(await value('log.retention.ms', 'broker', '--default')).toBe('700000');
      await cli().text(['config', 'delete', 'broker', '--default', 'log.retention.ms']);
      expect(await value('log.retention.ms', 'broker', '--default')).toBeUndefined();
      expect((await of('broker', '1')).length).toBeGreaterThan(0);
      await cli().text(['config', 'set', 'group', 'cli-g', 'consumer.session.timeout.ms=50000']);
      expect(await value('consumer.session.timeout.ms', 'group', 'cli-g')).toBe('50000');
      await cli().text(['config', 'delete', 'group', 'cli-g', 'consumer.session.timeout.ms']);
      const quota = ['user', 'alice', '--client', 'app'];
      await cli().text(['config', 'set', ...quota, 'producer_byte_rate=1024']);
      expect(await value('producer_byte_rate', ...quota)).toBe('1024');
      await cli().text(['config', 'delete', ...quota, 'producer_byte_rate']);
      expect(await of(...quota)).toEqual([]);
    });

    it('are listed by what has them', async () => {
      const name = await fresh();
      expect(await cli().text(['config', 'list'])).toMatch(new RegExp(`^topic +${name}$`, 'm'));
    });

    it('that are asked for wrongly end with code 2', async () => {
      for (const args of [
        ['describe', 'table', 'x'],
        ['describe', 'topic'],
        ['set', 'topic', 'x'],
        ['set', 'topic', 'x', 'novalue'],
        ['set', 'topic', '--default', 'a=b'],
        ['set', 'user', 'alice', 'producer_byte_rate=fast'],
      ]) {
        expect([args, (await cli().failure(['config', ...args])).code]).toEqual([args, 2]);
      }
    });
  });
}
