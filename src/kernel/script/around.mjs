// The part of a JavaScript interpreter that runs in the same realm as the cells: the globals of cells,
// and how values and errors are reported. node.mjs and deno.mjs pass what differs between their programs;
// a separate thread (drive.mjs) reads the connection and evaluates the cells.

import { Buffer } from 'node:buffer';
import path from 'node:path';
import process from 'node:process';
import stream from 'node:stream';
import util from 'node:util';
import { pathToFileURL } from 'node:url';
import { bundle, inspect, trimmed } from './display.mjs';
import { provide } from './rewrite.mjs';
import { DISPLAY, DONE, ERROR, MAIN, READY, send, writeAll } from './wire.mjs';

const AHEAD = 'SANDGLASS_KERNEL_AHEAD'; // see runtime/runtimes.h
const INNER_MAX = 8; // errors within an error that are reported, and how deep
const PATIENCE_MS = 1000; // for the other thread, on a busy machine, to wait for a promise that has failed
let current = null; // the run that is not done: { id, count, before }, the last of its environment
let line = -1;
const later = globalThis.setTimeout; // code may have one of its own
let mark = () => {};

export class Interrupted extends Error {
  constructor() {
    super('the run was interrupted; variables are kept');
    this.name = 'Interrupted';
    this.stack = `Interrupted: ${this.message}`;
  }
}

/** Something that is no error was thrown. */
class Thrown extends Error {
  constructor(value) {
    super(inspect(value));
    this.stack = `Uncaught ${this.message}`;
  }
}

const asError = (value) => util.types.isNativeError(value) || value instanceof Error ? value : new Thrown(value);

/** With what led to it, and what it stands for. */
function told(error, deep = 0) {
  if (!(error instanceof Error || util.types.isNativeError(error))) return inspect(error);
  const inner = deep === INNER_MAX ? [] : [
    ...Array.from(error.errors ?? []).slice(0, INNER_MAX).map((each) => ['error', each]),
    ...(error.cause === undefined ? [] : [['cause', error.cause]])];
  return [trimmed(error), ...inner.map(([what, each]) => `[${what}]: ${told(each, deep + 1)}`)].join('\n');
}

function describe(error) {
  try {
    return `${told(error)}\n`;
  } catch { // code has given it parts that cannot be read
    return 'Error\n';
  }
}

/** The module that code asked for and did not find; "" for other errors. */
function missingModule({ code, message, missing }) {
  if (missing !== undefined) return missing;
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return '';
  return /Cannot find (?:package|module) '([^']+)'/.exec(message)?.[1] ?? '';
}

async function show(id, value, flags) {
  const parts = await bundle(value);
  send(line, DISPLAY, id, [parts.length, ...parts.flat()], flags);
}

/** The end of the run `id`, unless it has ended; with an error unless all went well. The inspector's calls come
 * in the middle of others, wherever a function is entered: only here is it certain which run is under way. */
export function end(id, error, place = '') {
  if (current === null || current.id !== id) return;
  const { count, before } = current;
  current = null;
  mark(0);
  tellRejections();
  for (const [name, value] of before)
    if (value === undefined) delete process.env[name]; else process.env[name] = value;
  if (error !== undefined)
    send(line, ERROR, id, [String(error.name), String(error.message), place + describe(error), missingModule(error)]);
  send(line, DONE, id, [count, Number(error === undefined)]);
}

/** The number of the run that is not done, or 0. */
export const running = () => current?.id ?? 0;

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

/** What drive.mjs calls. A run that was stopped may still come to its end: nobody asks any more. */
const calls = (heard) => ({
  ready: (version) => send(line, READY, 0, [version]),
  // One that is made before it is known for whom goes the ways of a first cell.
  warm: async () => {
    if (process.env[AHEAD] === undefined) return;
    delete process.env[AHEAD];
    await bundle({ a: [1, null] });
    describe(new Error('warm'));
    process.stdout.write('');
  },
  dress: (variables) => { environment(variables); },
  begin: (id, count, variables) => {
    current = { id, count, before: environment(variables) };
    mark(id);
  },
  fail: (id, value, place) => {
    if (!isCurrent(id)) return;
    rejections = rejections.filter((reason) => reason !== value); // it is reported now
    end(id, asError(value), place);
  },
  refuse: (id, message, place) => { if (isCurrent(id)) end(id, Object.assign(new SyntaxError(message), { stack: `SyntaxError: ${message}` }), place); },
  interrupt: (id) => { heard(); if (isCurrent(id)) end(id, new Interrupted()); },
  settle: async (id, value) => {
    if (isCurrent(id) && value !== undefined)
      await show(id, value, MAIN).catch((error) => stray(error));
    if (isCurrent(id)) end(id);
  },
});

export class Exit extends Error {
  constructor(code) {
    super(String(code ?? process.exitCode ?? 0));
    this.name = 'SystemExit';
    this.stack = `SystemExit: ${this.message}`;
  }
}

export class NoInput extends Error {
  constructor() {
    super('nobody can be asked here: give what the code needs as a variable or a file');
    this.name = 'NoInput';
  }
}

/** Errors outside of the run itself, for example in a timer: some end the run, all others are reported. */
export function stray(error) {
  if ((error instanceof Exit || error instanceof NoInput) && current !== null) return end(running(), error);
  writeAll(2, Buffer.from(`Uncaught ${describe(asError(error))}`.replace(/^Uncaught Uncaught/, 'Uncaught')));
}

let rejections = []; // of promises that nobody waits for, yet: a cell that ends with one is waited for a moment later

function tellRejections() {
  const untold = rejections;
  rejections = [];
  for (const reason of untold) stray(reason);
}

/** A promise has failed, and nobody waits for it. */
export function rejected(reason) {
  if (reason instanceof Exit || reason instanceof NoInput || current === null) return stray(reason);
  rejections.push(reason);
  later(tellRejections, PATIENCE_MS);
}

/** Imports of a cell are resolved from its working directory, as if it were a file there. */
const filename = () => path.join(process.cwd(), 'cell.js');
export const here = () => pathToFileURL(filename()).href;

// Output goes out at once and in order, whatever the code does next.
function writeAtOnce() {
  for (const [out, fd] of [[process.stdout, 1], [process.stderr, 2]])
    out._write = (chunk, encoding, done) => {
      writeAll(fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
      done();
    };
}

/** Replaces functions that would end the process or wait for input. */
function stayAlone() {
  process.exit = (code) => { throw new Exit(code); };
  Object.defineProperty(process, 'stdin', { configurable: true, value: new stream.Readable({
    read() { this.destroy(new NoInput()); },
  }) });
  globalThis.prompt = () => { throw new NoInput(); };
}

/** What files of modules and of CommonJS have around them. */
function actAsFile(load, require) {
  const main = { id: '.', exports: {}, children: [], paths: [], loaded: false };
  const given = {
    __filename: filename,
    __dirname: () => process.cwd(),
    exports: () => main.exports,
    require: () => Object.assign(require(), { main }),
  };
  for (const [name, get] of Object.entries(given))
    Object.defineProperty(globalThis, name, { get, set(value) { Object.defineProperty(globalThis, name, { value, writable: true }); }, configurable: true });
  Object.defineProperty(globalThis, 'module', { value: main, writable: true, configurable: true });
  provide(load, () => ({ __proto__: null, main: true, url: here(), filename: filename(), dirname: process.cwd(),
    resolve: (name) => pathToFileURL(require().resolve(name)).href }));
}

/** `lineFd`: where frames are written; `heard()` reports that an interrupt was handled; `marked(id)` sets the
 * current run, 0 for none; `load(name, options)` imports, `require()` returns the function of that name. */
export function furnish({ lineFd, heard = () => {}, marked = () => {}, load, require }) {
  line = lineFd;
  mark = marked;
  Object.defineProperty(globalThis, Symbol.for('sandglass.kernel'), { value: calls(heard) });
  writeAtOnce();
  stayAlone();
  actAsFile(load, require);
  globalThis.display = async (...values) => {
    for (const value of values) await show(current?.id ?? 0, value, 0);
  };
}
