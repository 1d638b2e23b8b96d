/** What is written on the command line, read. Each throws commander's InvalidArgumentError, which names the option. */
import { InvalidArgumentError } from 'commander';

/** Collects `key=value`. */
export function keyValue(text: string, all: Map<string, string> = new Map()): Map<string, string> {
  const at = text.indexOf('=');
  if (at <= 0) throw new InvalidArgumentError('write key=value.');
  return new Map(all).set(text.slice(0, at).trim(), text.slice(at + 1));
}

/** Collects `key=value` where a key may come more than once. */
export function eachPair(
  text: string,
  all: readonly (readonly [string, string])[] = [],
): (readonly [string, string])[] {
  return [...all, ...keyValue(text)];
}

export function natural(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('a whole number from 0 on.');
  }
  return value;
}

export function positive(text: string): number {
  const value = natural(text);
  if (value === 0) throw new InvalidArgumentError('a whole number from 1 on.');
  return value;
}

/** `1024`, `64k`, `8m`: bytes. */
export function byteCount(text: string): number {
  const match = /^(\d{1,12})([kmg]?)$/i.exec(text);
  const units: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };
  const bytes = match === null ? 0 : Number(match[1]) * units[match[2]!.toLowerCase()]!;
  if (bytes === 0) throw new InvalidArgumentError('a number of bytes, as in 1024, 64k or 8m.');
  return bytes;
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '0': '\0', '\\': '\\' };

/** Text with \n, \t, \r, \0, \\ and \xHH, as bytes. */
export function escaped(text: string): Buffer {
  const parts: Buffer[] = [];
  let rest = text;
  while (rest !== '') {
    const at = rest.indexOf('\\');
    if (at < 0) {
      parts.push(Buffer.from(rest));
      break;
    }
    parts.push(Buffer.from(rest.slice(0, at)));
    const hex = /^\\x([0-9a-fA-F]{2})/.exec(rest.slice(at))?.[1];
    const letter = ESCAPES[rest[at + 1] ?? ''];
    if (hex !== undefined) parts.push(Buffer.from([Number.parseInt(hex, 16)]));
    else if (letter !== undefined) parts.push(Buffer.from(letter));
    else throw new InvalidArgumentError('after a backslash: n, t, r, 0, \\ or xHH.');
    rest = rest.slice(at + (hex === undefined ? 2 : 4));
  }
  return Buffer.concat(parts);
}

export interface TopicPartitions {
  readonly topic: string;
  /** Undefined: all. */
  readonly partitions: readonly number[] | undefined;
}

/** `topic` or `topic:0` or `topic:0,2,5-7`. */
export function topicPartitions(text: string): TopicPartitions {
  const colon = text.lastIndexOf(':');
  if (colon < 0) return { topic: text, partitions: undefined };
  const partitions = partitionList(text.slice(colon + 1));
  return { topic: text.slice(0, colon), partitions };
}

/** The same, collected. */
export function eachTopicPartitions(text: string, all: readonly TopicPartitions[] = []): TopicPartitions[] {
  return [...all, topicPartitions(text)];
}

const MOST_PARTITIONS = 100_000;

/** `0`, `0,2`, `0-5`. */
export function partitionList(text: string): number[] {
  const list = new Set<number>();
  for (const part of text.split(',')) {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (match === null) throw new InvalidArgumentError('partitions are written 0 or 0,2 or 0-5.');
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    if (last < first || last - first > MOST_PARTITIONS)
      throw new InvalidArgumentError(`no range of partitions: ${part}`);
    for (let partition = first; partition <= last; partition++) list.add(partition);
  }
  return [...list].sort((a, b) => a - b);
}

/** Where to begin in a partition. */
export type Position =
  | { readonly kind: 'earliest' | 'latest' }
  | { readonly kind: 'offset'; readonly offset: number }
  /** So many before the end. */
  | { readonly kind: 'last'; readonly count: number }
  /** ms since the epoch. */
  | { readonly kind: 'time'; readonly timestamp: number };

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `earliest` (beginning), `latest` (end), an offset, `-n` for the last n, a time in ISO 8601, `@ms` since the epoch, or
 * `10m` for that long ago (s, m, h, d). */
export function position(text: string, now = Date.now()): Position {
  if (text === 'earliest' || text === 'beginning') return { kind: 'earliest' };
  if (text === 'latest' || text === 'end') return { kind: 'latest' };
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text)))
    return { kind: 'offset', offset: Number(text) };
  if (/^-\d{1,15}$/.test(text)) return { kind: 'last', count: -Number(text) };
  if (/^@\d{1,15}$/.test(text)) return { kind: 'time', timestamp: Number(text.slice(1)) };
  const ago = /^(\d{1,9})([smhd])$/.exec(text);
  if (ago !== null) return { kind: 'time', timestamp: Math.max(0, now - Number(ago[1]) * UNIT_MS[ago[2]!]!) };
  const timestamp = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(timestamp)) {
    throw new InvalidArgumentError(
      'earliest, latest, an offset, -n for the last n, a time (2026-01-31T12:00:00Z), @ms or 10m for that long ago.',
    );
  }
  return { kind: 'time', timestamp };
}
