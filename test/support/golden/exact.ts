/** A reader and a writer whose int64 are exact: a number up to 2^53, a bigint beyond. The generated codecs run over them
 * as over the broker's; the types say number, which is what the broker's deliver. */
import { Reader } from '../../../src/protocol/reader.ts';
import { Writer } from '../../../src/protocol/writer.ts';

/** A number if it is exact as one, a bigint otherwise. */
export function exactInt64(value: bigint): number {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : (value as unknown as number);
}

function join(high: number, low: number): number {
  return exactInt64((BigInt(high) << 32n) | BigInt(low));
}

export class ExactReader extends Reader {
  override int64Of(high: number, low: number): number {
    return join(high, low);
  }
}

export class ExactWriter extends Writer {
  override int64(value: number): void {
    const exact: unknown = value;
    if (typeof exact === 'bigint') {
      const bits = BigInt.asUintN(64, exact);
      if (BigInt.asIntN(64, exact) !== exact) throw new RangeError(`${exact} is no int64`);
      this.int64Halves(Number(BigInt.asIntN(32, bits >> 32n)), Number(bits & 0xffffffffn));
    } else super.int64(value);
  }

  override int64Of(high: number, low: number): number {
    return join(high, low);
  }

  override isInt64(value: number, high: number, low: number): boolean {
    return value === join(high, low);
  }
}
