// Install script: compiles the addon only on Linux, and only when no prebuilt or built binary loads.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

function loads() {
  // A separate process: a broken binary must not take the installer down with it.
  const script = `require('node-gyp-build')(${JSON.stringify(root)})`;
  return spawnSync(process.execPath, ['-e', script], { cwd: root, stdio: 'ignore' }).status === 0;
}

function compile() {
  // A checkout has node-gyp of its own; an installed package uses the one that npm carries.
  let gyp = process.env.npm_config_node_gyp;
  try {
    gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  } catch {}
  if (!gyp) return 1;
  return spawnSync(process.execPath, [gyp, 'rebuild'], { cwd: root, stdio: 'inherit' }).status ?? 1;
}

if (process.platform === 'linux' && !loads()) {
  const status = compile();
  if (status !== 0) {
    console.error(
      '\nbroadsheet: compiling the native addon failed. It needs a C++20 compiler, make, python3 and Node’s headers.\n' +
        'node-gyp downloads the headers by itself; without a network, point it at a Node installation:\n' +
        '  npm_config_nodedir=$(dirname $(dirname $(which node))) npm ci\n',
    );
    process.exit(status);
  }
}
