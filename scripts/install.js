// Install script: compiles the addon only on Linux, and only when no prebuilt or built binary loads.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

function loads(env = {}) {
  // A separate process: a broken binary must not take the installer down with it.
  const script = `require('node-gyp-build')(${JSON.stringify(root)})`;
  return (
    spawnSync(process.execPath, ['-e', script], {
      cwd: root,
      stdio: 'ignore',
      env: { ...process.env, ...env },
    }).status === 0
  );
}

function compile() {
  // A checkout has node-gyp of its own; an installed package uses the one that npm carries.
  let gyp = process.env.npm_config_node_gyp;
  try {
    gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  } catch {}
  if (!gyp) return 1;
  // Headers that came with the running Node beat a download.
  const prefix = dirname(dirname(process.execPath));
  const hasHeaders = existsSync(join(prefix, 'include/node/node_api.h'));
  const env = { ...(hasHeaders && { npm_config_nodedir: prefix }), ...process.env };
  return (
    spawnSync(process.execPath, [gyp, 'rebuild', '--jobs', 'max'], { cwd: root, stdio: 'inherit', env })
      .status ?? 1
  );
}

if (process.platform === 'linux' && !loads() && !loads({ LIBC: 'musl' })) {
  const status = compile();
  if (status !== 0) {
    console.error(
      '\nbroadsheet: compiling the native addon failed. It needs a C++20 compiler, make, python3 and Node’s headers.\n' +
        'Headers beside the running Node are used when they are there, else node-gyp downloads them; without a network,\n' +
        'point it at a Node installation that has include/node:  npm_config_nodedir=/usr/local npm ci\n',
    );
    process.exit(status);
  }
}
