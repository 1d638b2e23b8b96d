/** The format of java.util.Properties, as server.properties is written in. */
import { BroadsheetError } from '../runtime/errors.ts';

const ESCAPES: Record<string, string> = { t: '\t', n: '\n', r: '\r', f: '\f' };

/** Resolves the backslash escapes of one key or value. Throws INVALID_CONFIG on a bad unicode escape. */
function resolveEscapes(text: string): string {
  return text.replace(/\\(u([0-9a-fA-F]{4})|u|.|$)/gs, (_, whole: string, hex: string | undefined) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
    if (whole === 'u') throw new BroadsheetError('INVALID_CONFIG', `malformed \\u escape in "${text}"`);
    return ESCAPES[whole] ?? whole;
  });
}

/** Joins continued lines and drops blanks and comments. */
function logicalLines(text: string): string[] {
  const lines: string[] = [];
  let pending: string | undefined;
  for (const raw of text.split(/\r\n|\r|\n/)) {
    const line: string = raw.replace(/^[ \t\f]+/, '');
    if (pending === undefined && (line === '' || line[0] === '#' || line[0] === '!')) continue;
    const joined: string = (pending ?? '') + line;
    const backslashes = /\\*$/.exec(joined)?.[0].length ?? 0;
    if (backslashes % 2 === 1) {
      pending = joined.slice(0, -1);
    } else {
      lines.push(joined);
      pending = undefined;
    }
  }
  if (pending !== undefined) lines.push(pending);
  return lines;
}

/** Keys and values in file order; a later line of a key wins. Throws INVALID_CONFIG. */
export function parseProperties(text: string): Map<string, string> {
  const result = new Map<string, string>();
  for (const line of logicalLines(text)) {
    const match = /^((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)$/s.exec(line);
    if (match) result.set(resolveEscapes(match[1]!), resolveEscapes(match[2]!));
  }
  return result;
}
