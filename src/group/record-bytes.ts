/** How keys and values of a coordinator's records begin: an int16 that says what it is, then the body. */
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';

export function bytesOf(type: number, write: (writer: Writer) => void): Uint8Array {
  const writer = new Writer(128);
  writer.int16(type);
  write(writer);
  return writer.bytes();
}

/** Null for a tombstone, undefined for a version that is not `only`. */
export function versioned<T>(
  value: Uint8Array | null,
  only: number,
  read: (reader: Reader, version: number) => T,
): T | null | undefined {
  if (value === null) return null;
  const reader = new Reader(value);
  return reader.int16() === only ? read(reader, only) : undefined;
}

export function mapped<T, R>(value: T | null | undefined, map: (value: T) => R): R | null | undefined {
  return value === null || value === undefined ? (value as null | undefined) : map(value);
}

/** All 64 bits, which the generated code's numbers do not hold. */
export function writeHash(writer: Writer, hash: bigint): void {
  writer.int32(Number(BigInt.asIntN(32, hash >> 32n)));
  writer.int32(Number(BigInt.asIntN(32, hash)));
}

export function readHash(reader: Reader): bigint {
  const high = BigInt(reader.int32());
  return (high << 32n) | BigInt.asUintN(32, BigInt(reader.int32()));
}
