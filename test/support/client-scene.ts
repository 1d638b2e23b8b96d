/** A broker and drivers of one client that talk to it: what the suites of clients play their scenarios in. */
import { ClientDriver, type Ready } from './client-driver.ts';
import { ClientServer } from './client-server.ts';
import type { ClientKind } from './clients.ts';

/** Of a broker whose groups notice soon what their members do. */
export const BRISK_GROUPS = {
  'group.min.session.timeout.ms': '1000',
  'group.consumer.min.session.timeout.ms': '1000',
  'group.consumer.min.heartbeat.interval.ms': '250',
  'group.consumer.heartbeat.interval.ms': '250',
};

/** Clients that a test may use; named ones only, for work on one of them. */
const CHOSEN = process.env.BROADSHEET_CLIENTS_ONLY?.split(',');

export function chosen(clients: readonly ClientKind[]): ClientKind[] {
  return clients.filter(({ name }) => CHOSEN?.includes(name) ?? true);
}

/** A broker and the drivers that talk to it, ended together. */
export class Scene {
  readonly kind: ClientKind;
  readonly server: ClientServer;
  readonly drivers: ClientDriver[] = [];

  constructor(kind: ClientKind, server: ClientServer) {
    this.kind = kind;
    this.server = server;
  }

  async driver(): Promise<ClientDriver> {
    const driver = await ClientDriver.start(this.kind, this.server.address);
    this.drivers.push(driver);
    return driver;
  }

  /** Waits with all drivers' stories at hand. */
  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    for (let turns = 0; !(await condition()); turns++) {
      if (turns > 4_500) {
        throw new Error(`${what} did not come about\n${this.drivers.map((each) => each.story).join('\n')}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** Plays a scenario on a broker of its own. */
export async function playScene(
  kind: ClientKind,
  settings: Readonly<Record<string, string>>,
  play: (scene: Scene) => Promise<void>,
): Promise<void> {
  const it = new Scene(kind, await ClientServer.start(settings));
  try {
    await play(it);
  } finally {
    await Promise.all(it.drivers.map((driver) => driver.kill()));
    await it.server.dispose();
  }
}

/** A scenario that a client can't play is named in the output, with its reason. */
export function unable(ready: Ready, what: string): void {
  process.stderr.write(`${ready.client} has no ${what}: left out\n`);
}

const abilities = new Map<ClientKind, Promise<Ready>>();

/** What a client can, as its driver says when it starts. */
export function abilitiesOf(kind: ClientKind): Promise<Ready> {
  const known = abilities.get(kind);
  if (known !== undefined) return known;
  const asked = ClientDriver.start(kind, '127.0.0.1:1').then(async (driver) => {
    await driver.kill();
    process.stderr.write(`${driver.ready!.client}\n`);
    return driver.ready!;
  });
  abilities.set(kind, asked);
  return asked;
}
