/** int64 as the nearest number: exact up to 2^53. */

const TWO_32 = 2 ** 32;
const TWO_63 = 2 ** 63;
const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);

export function readInt64(view: DataView, at: number): number {
  return view.getInt32(at) * TWO_32 + view.getUint32(at + 4);
}

/** What int64 cannot hold becomes the nearest that it can. */
export function writeInt64(view: DataView, at: number, value: number): void {
  if (value >= TWO_63 || value < -TWO_63) {
    view.setBigInt64(at, value > 0 ? MAX_INT64 : MIN_INT64);
    return;
  }
  view.setInt32(at, Math.floor(value / TWO_32));
  view.setUint32(at + 4, value >>> 0);
}
