// The Node kernel, as it lives beside the code that it runs: what cells find around them, how values
// and errors are told, and interrupts. node_worker.mjs drives it. node node.mjs

import module from 'node:module';
import path from 'node:path';
import stream from 'node:stream';
import util from 'node:util';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { bundle, inspect, trimmed } from './display.mjs';
import { provide } from './imports.mjs';
import { DISPLAY, DONE, ERROR, MAIN, send, writeAll } from './wire.mjs';

let current = null; // the run that is not done: { id, count, before }, the last of its environment

// ---- what the addon does: the line, and interrupts ----

class Interrupted extends Error {
  constructor() {
    super('the run was interrupted; variables are kept');
    this.name = 'Interrupted';
    this.stack = `Interrupted: ${this.message}`;
  }
}

// Node's own handler comes first; the addon's calls it.
process.on('SIGINT', () => { if (heard() && current !== null) end(new Interrupted()); });
const addon = { exports: {} };
process.dlopen(addon, path.join(import.meta.dirname, 'kernel-node.node'));
const { heard, line } = addon.exports;
if (line === undefined) throw new Error('the kernel needs Node 22.15 or later');

// ---- what is told ----

/** Something that is no error was thrown. */
class Thrown extends Error {
  constructor(value) {
    super(inspect(value));
    this.stack = `Uncaught ${this.message}`;
  }
}

const asError = (value) => util.types.isNativeError(value) || value instanceof Error ? value : new Thrown(value);

function describe(error) {
  const cause = error.cause instanceof Error ? `\n[cause]: ${trimmed(error.cause)}` : '';
  return `${trimmed(error)}${cause}\n`;
}

function missingModule({ code, message }) {
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return '';
  return /Cannot find (?:package|module) '([^']+)'/.exec(message)?.[1] ?? '';
}

async function show(id, value, flags) {
  const parts = await bundle(value);
  send(line, DISPLAY, id, [parts.length, ...parts.flat()], flags);
}

/** The end of the current run; with an error unless all went well. */
function end(error, place = '') {
  const { id, count, before } = current;
  current = null;
  for (const [name, value] of before)
    if (value === undefined) delete process.env[name]; else process.env[name] = value;
  if (error !== undefined)
    send(line, ERROR, id, [String(error.name), String(error.message), place + describe(error), missingModule(error)]);
  send(line, DONE, id, [count, Number(error === undefined)]);
}

/** Variables of one run ("NAME=value", a NUL behind each); gives what was there before. */
function environment(variables) {
  const before = [];
  for (const [, name, value] of variables.matchAll(/([^=\0]+)=([^\0]*)\0/g)) {
    before.push([name, process.env[name]]);
    process.env[name] = value;
  }
  return before;
}

const isCurrent = (id) => current?.id === id;

// What node_worker.mjs calls. A run that was stopped may still come to its end: nobody asks any more.
Object.defineProperty(globalThis, Symbol.for('sandglass.kernel'), { value: {
  begin: (id, count, variables) => { current = { id, count, before: environment(variables) }; },
  fail: (id, value, place) => { if (isCurrent(id)) end(asError(value), place); },
  refuse: (id, message) => { if (isCurrent(id)) end(Object.assign(new SyntaxError(message), { stack: `SyntaxError: ${message}` })); },
  interrupt: (id) => { heard(); if (isCurrent(id)) end(new Interrupted()); },
  settle: async (id, value) => {
    if (isCurrent(id) && value !== undefined)
      await show(id, value, MAIN).catch((error) => stray(error));
    if (isCurrent(id)) end();
  },
} });

// ---- what code finds around it ----

// Output goes out at once and in order, whatever the code does next.
for (const [out, fd] of [[process.stdout, 1], [process.stderr, 2]])
  out._write = (chunk, encoding, done) => {
    writeAll(fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    done();
  };

class Exit extends Error {
  constructor(code) {
    super(String(code ?? process.exitCode ?? 0));
    this.name = 'SystemExit';
    this.stack = `SystemExit: ${this.message}`;
  }
}
process.exit = (code) => { throw new Exit(code); };
// Node's own would wait for the inspector's session to end.
process.reallyExit = () => process.kill(process.pid, 'SIGKILL');

class NoInput extends Error {
  constructor() {
    super('nobody can be asked here: give what the code needs as a variable or a file');
    this.name = 'NoInput';
  }
}
Object.defineProperty(process, 'stdin', { configurable: true, value: new stream.Readable({
  read() { this.destroy(new NoInput()); },
}) });
globalThis.prompt = () => { throw new NoInput(); };

/** Errors outside of the run itself, in a timer say: some end the run, all others are told. */
function stray(error) {
  if ((error instanceof Exit || error instanceof NoInput) && current !== null) return end(error);
  writeAll(2, Buffer.from(`Uncaught ${describe(asError(error))}`.replace(/^Uncaught Uncaught/, 'Uncaught')));
}
process.on('uncaughtException', stray);
process.on('unhandledRejection', stray);

// Imports of a cell are resolved from its working directory, as if it were a file there.
const here = () => pathToFileURL(path.join(process.cwd(), 'cell.js')).href;
module.registerHooks({
  resolve: (name, context, next) =>
    next(name, context.parentURL === import.meta.url ? { ...context, parentURL: here() } : context),
});
provide((name, options) => import(name, options));
Object.defineProperty(globalThis, 'require', { get: () => module.createRequire(here()), configurable: true });
globalThis.display = async (...values) => {
  for (const value of values) await show(current?.id ?? 0, value, 0);
};

new Worker(path.join(import.meta.dirname, 'node_worker.mjs'), { workerData: { line }, stdin: true })
  .on('message', () => {}) // see there
  .on('error', (error) => { writeAll(2, Buffer.from(`${inspect(error)}\n`)); process.reallyExit(); });
