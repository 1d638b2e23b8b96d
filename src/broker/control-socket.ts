/**
 * The socket `.control.sock` in a data directory: how a command on the same machine asks the broker that has the directory for
 * what no Kafka request can. Whoever may write to the socket may ask; the system gives it to the broker's user.
 *
 * Both sides speak in lines. The one request is `backup`; its answer is a DirectoryCut as JSON, or `{"error": ...}`, and the
 * segments are held until the connection ends.
 */
import { closeSync, openSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { CUT_VERSION, type DirectoryCut } from '../log/log-cut.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { HeldCut } from './backups.ts';

export const CONTROL_SOCKET = '.control.sock';
const BACKUP = 'backup';
/** sockaddr_un has no more, less the zero at the end. */
const LONGEST_PATH = process.platform === 'linux' ? 107 : 103;
const LONGEST_REQUEST = 64;

interface Reached {
  readonly path: string;
  done(): void;
}

/** A path of the socket that the system takes, valid until done(). */
function reach(dataDir: string): Reached {
  const path = `${dataDir}/${CONTROL_SOCKET}`;
  if (Buffer.byteLength(path) <= LONGEST_PATH || process.platform !== 'linux')
    return { path, done: () => {} };
  const folder = openSync(dataDir, 'r');
  return { path: `/proc/self/fd/${folder}/${CONTROL_SOCKET}`, done: () => closeSync(folder) };
}

export class ControlSocket {
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  #reached: Reached | undefined;

  private constructor(hold: () => Promise<HeldCut>, log: Logger) {
    this.#server = createServer((socket) => {
      this.#connections.add(socket);
      socket.on('close', () => this.#connections.delete(socket));
      serve(socket, hold, log);
    });
  }

  /** Listens in the directory, of which the caller has the lock. Where sockets can't be it warns, and nobody can ask. */
  static async open(dataDir: string, hold: () => Promise<HeldCut>, log: Logger): Promise<ControlSocket> {
    const control = new ControlSocket(hold, log);
    // One that was killed left it.
    rmSync(`${dataDir}/${CONTROL_SOCKET}`, { force: true });
    try {
      control.#reached = reach(dataDir);
      const { path } = control.#reached;
      await new Promise<void>((resolve, reject) => {
        control.#server.once('error', reject).listen(path, resolve);
      });
    } catch (error) {
      log.warn(
        { reason: (error as Error).message },
        'no control socket: `broadsheet backup` finds this broker not',
      );
      await control.close();
    }
    return control;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#reached?.done();
    this.#reached = undefined;
  }
}

function serve(socket: Socket, hold: () => Promise<HeldCut>, log: Logger): void {
  let request = '';
  let release: (() => void) | undefined;
  socket.setEncoding('utf8');
  // A peer that is gone has ended what it asked for.
  socket.on('error', () => {});
  socket.on('close', () => release?.());
  socket.on('data', (text: string) => {
    request += text;
    const end = request.indexOf('\n');
    if (end < 0 && request.length <= LONGEST_REQUEST) return;
    socket.removeAllListeners('data').resume();
    void answer(request.slice(0, Math.max(end, 0)));
  });
  async function answer(asked: string): Promise<void> {
    try {
      if (asked !== BACKUP) throw new BroadsheetError('UNSUPPORTED', 'the broker knows no such request');
      const held = await hold();
      if (socket.destroyed) return held.release();
      ({ release } = held);
      socket.write(`${JSON.stringify(held.cut)}\n`);
    } catch (error) {
      const { code, message } = error as BroadsheetError;
      log.warn({ reason: message }, 'a request at the control socket failed');
      socket.end(`${JSON.stringify({ error: { code, message } })}\n`);
    }
  }
}

/** A cut that another process's broker holds. */
export interface RemoteCut extends HeldCut {
  /** Aborts when the broker goes. */
  readonly signal: AbortSignal;
}

/** Asks the broker that has the directory. Rejects with UNSUPPORTED when none listens there, or is of another version, and with
 * what the broker said. */
export async function holdRemotely(dataDir: string): Promise<RemoteCut> {
  const reached = reach(dataDir);
  const gone = new AbortController();
  const socket = connect(reached.path).setEncoding('utf8');
  const release = () => {
    socket.destroy();
  };
  try {
    const line = await new Promise<string>((resolve, reject) => {
      let text = '';
      socket.on('connect', () => socket.write(`${BACKUP}\n`));
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the broker went away')));
      socket.on('data', (more: string) => {
        text += more;
        if (text.endsWith('\n')) resolve(text);
      });
    });
    const said = JSON.parse(line) as DirectoryCut & {
      error?: { code?: BroadsheetError['code']; message: string };
    };
    if (said.error !== undefined) throw new BroadsheetError(said.error.code ?? 'IO', said.error.message);
    if (said.version !== CUT_VERSION)
      throw new BroadsheetError(
        'UNSUPPORTED',
        `the broker speaks version ${said.version}, this command ${CUT_VERSION}`,
      );
    socket.on('close', () =>
      gone.abort(new BroadsheetError('CLOSED', 'the broker stopped during the backup')),
    );
    return { cut: { ...said, dataDir }, signal: gone.signal, release };
  } catch (error) {
    release();
    if (error instanceof BroadsheetError) throw error;
    throw new BroadsheetError('UNSUPPORTED', `${dataDir}/${CONTROL_SOCKET}: ${(error as Error).message}`);
  } finally {
    reached.done();
  }
}
