/** A process without an addon, for engines.test.ts: decides each of the cases in argv, JSON [{config, ci}], and prints what
 * came of it, one JSON line a case. */
import { openEngines } from '../../src/broker/engines.ts';
import { BrokerConfig } from '../../src/config/broker-config.ts';
import type { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';

export interface ChoiceCase {
  readonly config: Record<string, string>;
  readonly ci?: string;
}

export type Choice =
  | { engine: string; transport: string; warnings: string[] }
  | { code: string; message: string };

async function choose({ config, ci = '' }: ChoiceCase): Promise<Choice> {
  process.env.CI = ci;
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) };
  try {
    const { engine, transport } = await openEngines(new BrokerConfig(new Map(Object.entries(config))), log);
    await transport.close(0);
    await engine.close();
    return { engine: engine.name, transport: transport.name, warnings };
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    return { code, message };
  }
}

for (const each of JSON.parse(process.argv[2]!) as ChoiceCase[])
  console.log(JSON.stringify(await choose(each)));
