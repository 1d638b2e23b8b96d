/**
 * Which engine runs: the one place that decides, and that loads it. `engine` (auto, native, js) is about logs and files,
 * `transport` (auto, native, js) about sockets and follows it; the JS transport serves native logs too.
 *
 * auto is native where the addon loads. Where it does not, the JS engine takes over with one line in the log; with
 * engine=native, and under CI, that is an error instead.
 */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { LogEngine } from '../log/log.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { EngineName, EngineWish } from './engine-names.ts';
import type { Transport, TransportOptions } from './transport.ts';

/** What the JS engine costs where the native one could run. */
const COST = 'it takes several times the processor time, and copies what sendfile would send';

function isUnderCi(): boolean {
  const { CI } = process.env;
  return CI !== undefined && CI !== '' && CI !== 'false' && CI !== '0';
}

/** Throws ADDON_UNAVAILABLE when the addon is asked for, or CI is set, and it does not load. */
export async function chooseEngine(wish: EngineWish, log: Logger): Promise<EngineName> {
  if (wish === 'js') return 'js';
  const { addon } = await import('../native.ts');
  try {
    addon();
    return 'native';
  } catch (error) {
    if (wish === 'native' || isUnderCi()) throw error;
    const reason = (error as Error).message.replace(/\s+/g, ' ').trim();
    log.warn({}, `${reason}; the JS engine takes its place: ${COST} (engine=native refuses to start)`);
    return 'js';
  }
}

export async function makeEngine(name: EngineName): Promise<LogEngine> {
  if (name === 'js') return new (await import('../log/js-engine.ts')).JsEngine();
  return new (await import('../log/native-engine.ts')).NativeEngine();
}

async function makeTransport(name: EngineName, options: TransportOptions): Promise<Transport> {
  if (name === 'js') return (await import('./js-transport.ts')).jsTransport(options);
  return (await import('./native-transport.ts')).nativeTransport(options);
}

/** Throws ADDON_UNAVAILABLE, and INVALID_CONFIG for the native transport over JS logs. */
export async function openEngines(
  config: BrokerConfig,
  log: Logger,
): Promise<{ readonly engine: LogEngine; readonly transport: Transport }> {
  const wishes = { engine: config.string('engine'), transport: config.string('transport') };
  const engineWish = wishes.engine as EngineWish;
  if (engineWish === 'js' && wishes.transport === 'native') {
    throw new BroadsheetError(
      'INVALID_CONFIG',
      'transport is native and engine is js: the native transport sends files of native logs only',
    );
  }
  // The native transport needs the addon as well.
  const engine = await chooseEngine(wishes.transport === 'native' ? 'native' : engineWish, log);
  const transport = wishes.transport === 'auto' ? engine : (wishes.transport as EngineName);
  return {
    engine: await makeEngine(engine),
    transport: await makeTransport(transport, {
      maxFrameBytes: config.number('socket.request.max.bytes'),
      maxQueuedBytes: config.number('connection.max.queued.bytes'),
      fetchPath: config.string('fetch.path') as TransportOptions['fetchPath'],
      sendBufferBytes: config.number('socket.send.buffer.bytes'),
      receiveBufferBytes: config.number('socket.receive.buffer.bytes'),
    }),
  };
}
