// The Node kernel: cells evaluated as in a REPL, through V8's own REPL mode, which knows top-level
// await, the value of the last expression and names declared again. node node.mjs

import fs from 'node:fs';
import inspector from 'node:inspector';
import module from 'node:module';
import path from 'node:path';
import util from 'node:util';
import { pathToFileURL } from 'node:url';
import { provide, withImports } from './imports.mjs';
import { DISPLAY, DONE, ERROR, MAIN, READY, receive, RUN, send, writeAll } from './wire.mjs';

const fd = 0; // standard input is the line; code that reads it finds its end

const session = new inspector.Session();
const JSON_MAX = 4 << 20;
const METHODS = {
  'text/html': 'toHTML', 'text/markdown': 'toMarkdown', 'image/svg+xml': 'toSVG', 'image/png': 'toPNG',
};
const MIMEBUNDLE = Symbol.for('Jupyter.display');
let count = 0;
let current = 0;

session.connect();
const post = (method, params) => new Promise((resolve, reject) =>
  session.post(method, params, (error, result) => error ? reject(error) : resolve(result)));

const inspect = (value) => util.inspect(value, { depth: 4, breakLength: 79, maxArrayLength: 200 });

/** The value as JSON holds it; undefined for what it does not. */
function asJson(value) {
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol') return undefined;
  try {
    const text = JSON.stringify(value);
    return text !== undefined && text.length <= JSON_MAX ? text : undefined;
  } catch {
    return undefined;
  }
}

async function bundle(value) {
  const found = new Map();
  if (value !== null && typeof value === 'object') {
    try {
      for (const [mime, data] of Object.entries(await value[MIMEBUNDLE]?.() ?? {})) found.set(mime, data);
      for (const [mime, name] of Object.entries(METHODS))
        if (!found.has(mime) && typeof value[name] === 'function') found.set(mime, await value[name]());
    } catch { /* an object that cannot draw itself is still shown as text */ }
    if (Buffer.isBuffer(value) && value.subarray(0, 4).toString('latin1') === '\x89PNG') found.set('image/png', value);
  }
  if (!found.has('text/plain')) found.set('text/plain', inspect(value));
  const json = found.has('application/json') ? undefined : asJson(value);
  if (json !== undefined) found.set('application/json', json);
  return found;
}

async function show(value, flags) {
  const found = await bundle(value);
  const fields = [found.size];
  for (const [mime, data] of found)
    fields.push(mime, Buffer.isBuffer(data) || typeof data === 'string' ? data
      : data instanceof Uint8Array ? Buffer.from(data) : JSON.stringify(data));
  send(fd, DISPLAY, current, fields, flags);
}

/** Frames of the user's own cells; ours and Node's say nothing to anybody. */
function trimmed(error) {
  const lines = String(error.stack ?? error).split('\n');
  const kept = lines.filter((line) => !/^\s+at /.test(line) ||
    !(/\(?node:/.test(line) || /at new Promise \(<anonymous>\)/.test(line) || line.includes(import.meta.url)));
  return kept.join('\n') + '\n';
}

function report(error) {
  const isError = error instanceof Error || util.types.isNativeError(error);
  const name = isError ? String(error.name) : 'Error';
  const message = isError ? String(error.message) : inspect(error);
  const missing = /^(?:ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND)$/.test(error?.code ?? '') &&
    /Cannot find (?:package|module) '([^']+)'/.exec(message)?.[1] || '';
  send(fd, ERROR, current, [name, message, isError ? trimmed(error) : message + '\n', missing]);
}

async function evaluate(code, language) {
  if (language === 'typescript') code = module.stripTypeScriptTypes(code);
  const name = `cell-${count}.js`;
  const done = await post('Runtime.evaluate', {
    expression: `${withImports(code)}\n//# sourceURL=${name}`, replMode: true, awaitPromise: true,
    objectGroup: 'cell', userGesture: true,
  });
  const kept = done.exceptionDetails?.exception ?? done.result;
  const value = await valueOf(kept);
  if (done.exceptionDetails) throw value ?? new Error(done.exceptionDetails.text);
  return value;
}

/** The object itself behind the inspector's description of it. */
async function valueOf(remote) {
  if (remote.objectId === undefined)
    return remote.unserializableValue === undefined ? remote.value
      : remote.unserializableValue.endsWith('n') ? BigInt(remote.unserializableValue.slice(0, -1))
      : Number(remote.unserializableValue);
  await post('Runtime.callFunctionOn', { objectId: remote.objectId,
    functionDeclaration: 'function () { globalThis[Symbol.for("sandglass.value")] = this; }' });
  const key = Symbol.for('sandglass.value');
  const value = globalThis[key];
  delete globalThis[key];
  return value;
}

async function run(id, code, language) {
  current = id;
  count += 1;
  let ok = true;
  try {
    const value = await evaluate(code, language);
    if (value !== undefined) await show(value, MAIN);
  } catch (error) {
    ok = false;
    report(error);
  }
  await post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  send(fd, DONE, id, [count, Number(ok)]);
}

// Output goes out at once and in order, whatever the code does next.
for (const [stream, out] of [[process.stdout, 1], [process.stderr, 2]])
  stream._write = (chunk, encoding, done) => {
    writeAll(out, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    done();
  };

// Imports of a cell are resolved from its working directory, as if it were a file there.
const here = () => pathToFileURL(path.join(process.cwd(), 'cell.js')).href;
module.registerHooks({
  resolve: (name, context, next) =>
    next(name, context.parentURL === import.meta.url ? { ...context, parentURL: here() } : context),
});
provide((name, options) => import(name, options));
Object.defineProperty(globalThis, 'require', { get: () => module.createRequire(here()), configurable: true });
globalThis.display = async (...values) => {
  for (const value of values) await show(value, 0);
};
process.on('uncaughtException', (error) => fs.writeSync(2, util.inspect(error) + '\n'));
process.on('unhandledRejection', (error) => fs.writeSync(2, util.inspect(error) + '\n'));

Object.defineProperty(process, 'stdin', { value: fs.createReadStream('/dev/null'), configurable: true });

let queue = Promise.resolve();
receive(fd, (type, id, [code, language]) => {
  if (type === RUN) queue = queue.then(() => run(id, code, language));
}, () => process.exit(0));
send(fd, READY, 0, [process.versions.node]);
