/** Says in words what bytes that are no Kafka request probably are: the likely cause in a log line. */

const HTTP_METHODS = ['GET ', 'POST', 'PUT ', 'HEAD', 'DELE', 'OPTI', 'PATC', 'CONN', 'TRAC', 'PRI '];

/**
 * Explains a frame whose length no Kafka client sends. `bytes[start, end)` begins with that length; at most what has
 * arrived of the frame follows.
 */
export function describeBadFrame(
  bytes: Uint8Array,
  start: number,
  end: number,
  maxFrameBytes: number,
): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start);
  if (head.length < 4) return 'the connection sent less than a frame length';
  const text = head.toString('latin1', 0, 4);
  if (HTTP_METHODS.includes(text)) {
    const line = /^[\x20-\x7e]*/.exec(head.toString('latin1'))?.[0] ?? '';
    return `an HTTP request ("${line.slice(0, 40)}"): this port speaks the Kafka protocol`;
  }
  if (text === 'HTTP') return 'an HTTP response: this port speaks the Kafka protocol';
  if (head[0] === 0x16 && head[1] === 0x03) {
    return 'a TLS client hello: this listener is PLAINTEXT (set security.protocol=PLAINTEXT in the client)';
  }
  if (text === 'SSH-') return 'an SSH client: this port speaks the Kafka protocol';
  const length = head.readInt32BE(0);
  if (length < 0) return `a frame of negative length (${length})`;
  if (length === 0) return 'a frame of length 0';
  return `a frame of ${length} bytes, more than socket.request.max.bytes (${maxFrameBytes})`;
}
