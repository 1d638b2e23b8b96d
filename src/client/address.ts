/** Where brokers listen, as people write it: `host:port`, `[::1]:9092`, several with commas. */
import { BroadsheetError } from '../runtime/errors.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Throws INVALID_ARGUMENT, naming what is no address. */
export function parseAddresses(text: string): Address[] {
  return text.split(',').map((each) => {
    const address = each.trim();
    const colon = address.lastIndexOf(':');
    const port = Number(address.slice(colon + 1));
    const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    if (colon < 1 || host === '' || !/^\d{1,5}$/.test(address.slice(colon + 1)) || port > 65535) {
      throw new BroadsheetError(
        'INVALID_ARGUMENT',
        `not host:port: ${JSON.stringify(address)}; ${advice(address)}`,
      );
    }
    return { host, port };
  });
}

function advice(address: string): string {
  return /^[\w.-]+$/.test(address)
    ? `did you mean ${address}:9092?`
    : 'write it as in localhost:9092 or [::1]:9092';
}

export function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
