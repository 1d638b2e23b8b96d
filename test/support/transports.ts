/** The transports that every suite of a Transport runs against. */
import { jsTransport } from '../../src/broker/js-transport.ts';
import { nativeTransport } from '../../src/broker/native-transport.ts';
import type { Transport, TransportOptions } from '../../src/broker/transport.ts';

export const TRANSPORTS = ['native', 'js'] as const;
export type TransportName = (typeof TRANSPORTS)[number];

export function makeTransport(name: TransportName, options: TransportOptions): Transport {
  return name === 'native' ? nativeTransport(options) : jsTransport(options);
}
