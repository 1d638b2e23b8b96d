/** The commands against this broker. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { type Broker, createBroker } from '../../src/index.ts';
import { CliOf } from '../support/cli.ts';
import { cliSuite } from '../support/cli-suite.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cli-'));
let broker: Broker;

beforeAll(async () => {
  broker = await createBroker({ dataDir: join(dir, 'data'), host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await broker?.close();
  rmSync(dir, { recursive: true, force: true });
});

cliSuite(() => new CliOf(broker.bootstrapServers));
