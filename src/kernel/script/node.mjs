// The Node kernel's main thread: node node.mjs. See around.mjs; node_worker.mjs drives it.

import module from 'node:module';
import { end, furnish, here, Interrupted, rejected, running, stray } from './around.mjs';
import { inspect } from './display.mjs';
import { writeAll } from './wire.mjs';

// Node's own would wait for the inspector's session to end.
process.reallyExit = () => process.kill(process.pid, 'SIGKILL');
process.on('uncaughtException', stray);
process.on('unhandledRejection', rejected);

// Modules are looked for from the working directory of the cells; packages.cjs looks where they are installed.
module.registerHooks({
  resolve: (name, context, next) =>
    next(name, context.parentURL === import.meta.url ? { ...context, parentURL: here() } : context),
});
/** `addon`: of kernel-node.node; `worker`: the other thread, which waits for a word. */
export function start({ heard, marked, watch }, line, worker) {
  // Node's own handler comes first; the addon's calls it.
  process.on('SIGINT', () => {
    const id = heard(); // the run that it was meant for; another may be under way by now
    if (id !== 0 && id === running()) end(id, new Interrupted());
  });
  if (!watch()) throw new Error('the kernel needs Node 22.15 or later');
  furnish({ lineFd: line, heard, marked, load: (name, options) => import(name, options), require: () => module.createRequire(here()) });
  worker.on('message', () => {}) // see there
    .on('error', (error) => { writeAll(2, Buffer.from(`${inspect(error)}\n`)); process.reallyExit(); });
  worker.postMessage(null);
}
