// The Node kernel's main thread: node node.mjs. See around.mjs; node_worker.mjs drives it.

import module from 'node:module';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { end, furnish, here, Interrupted, isRunning, stray } from './around.mjs';
import { inspect } from './display.mjs';
import { writeAll } from './wire.mjs';

// Node's own handler comes first; the addon's calls it.
process.on('SIGINT', () => { if (heard() && isRunning()) end(new Interrupted()); });
const addon = { exports: {} };
process.dlopen(addon, path.join(import.meta.dirname, 'kernel-node.node'));
const { heard, takeLine, watch } = addon.exports;
if (!watch()) throw new Error('the kernel needs Node 22.15 or later');
const line = takeLine();

// Node's own would wait for the inspector's session to end.
process.reallyExit = () => process.kill(process.pid, 'SIGKILL');
process.on('uncaughtException', stray);
process.on('unhandledRejection', stray);

module.registerHooks({
  resolve: (name, context, next) =>
    next(name, context.parentURL === import.meta.url ? { ...context, parentURL: here() } : context),
});
furnish({ lineFd: line, heard, load: (name, options) => import(name, options), require: () => module.createRequire(here()) });

new Worker(path.join(import.meta.dirname, 'node_worker.mjs'), { workerData: { line }, stdin: true })
  .on('message', () => {}) // see there
  .on('error', (error) => { writeAll(2, Buffer.from(`${inspect(error)}\n`)); process.reallyExit(); });
