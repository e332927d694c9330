// The Node kernel's other thread: it reads the line and has V8 evaluate cells on the main thread,
// through V8's own REPL mode, which knows top-level await, the value of the last expression and names
// declared again.
//
// It is a thread because answers of V8's inspector may come at any time, in the middle of a garbage
// collection too (a promise that can never settle is collected with the cell that waits for it), and
// only another thread can take them then. No frame of ours lies below a cell, so that an interrupt
// ends the cell and nothing else.

import inspector from 'node:inspector';
import module from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { withImports } from './imports.mjs';
import { READY, receive, RUN, send } from './wire.mjs';

parentPort.on('message', () => {}); // keeps this thread alive while it waits for the inspector

const session = new inspector.Session();
session.connectToMainThread();
const post = (method, params) => new Promise((resolve, reject) =>
  session.post(method, params, (error, result) => error ? reject(error) : resolve(result)));

const { result: kernel } = await post('Runtime.evaluate', {
  expression: 'globalThis[Symbol.for("sandglass.kernel")]' });
const plain = (value) => ({ value });

/** Calls a function of node.mjs on the main thread. */
const call = (name, ...args) => post('Runtime.callFunctionOn', {
  objectId: kernel.objectId, arguments: args, functionDeclaration: `function (...args) { this.${name}(...args); }` });

/** Types blanked out in place; what has code behind it (enum, namespace) is compiled instead. */
function withoutTypes(code) {
  try {
    return module.stripTypeScriptTypes(code);
  } catch (error) {
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    return module.stripTypeScriptTypes(code, { mode: 'transform' });
  }
}

/** V8 knows where a syntax error is, and its stack does not say. */
function placeOf({ exception, lineNumber, columnNumber, stackTrace }, code, name) {
  if (exception?.className !== 'SyntaxError' || stackTrace !== undefined) return '';
  const text = code.split('\n')[lineNumber];
  return text === undefined ? '' : `${name}:${lineNumber + 1}\n${text}\n${' '.repeat(columnNumber)}^\n\n`;
}

const argument = ({ objectId, unserializableValue, value }) =>
  objectId !== undefined ? { objectId } : unserializableValue !== undefined ? { unserializableValue } : { value };

async function evaluate(id, name, code) {
  try {
    const answer = post('Runtime.evaluate', { expression: `${withImports(code)}\n//# sourceURL=${name}`,
      replMode: true, awaitPromise: true, objectGroup: `run-${id}` });
    parentPort.postMessage(null); // Node's queues move on only after a call-back of its own
    const { result, exceptionDetails: failure } = await answer;
    if (failure === undefined) await call('settle', plain(id), argument(result));
    else await call('fail', plain(id), argument(failure.exception ?? result), plain(placeOf(failure, code, name)));
  } catch (error) {
    // "Promise was collected": what it waits for never comes, and it waits on until it is stopped.
    if (error.message.includes('terminated')) await call('interrupt', plain(id));
  }
  session.post('Runtime.releaseObjectGroup', { objectGroup: `run-${id}` });
  parentPort.postMessage(null);
}

let count = 0;

async function run(id, code, language, variables) {
  const name = `cell-${count += 1}`;
  call('begin', plain(id), plain(count), plain(variables)).catch(() => {});
  try {
    if (/^(?:m|c)?ts$|^typescript$/.test(language)) code = withoutTypes(code);
  } catch (error) {
    return call('refuse', plain(id), plain(error.message));
  }
  return evaluate(id, name, code);
}

// Whoever closes the line wants nobody to live on, however busy.
receive(workerData.line, (type, id, [code, language, variables = '']) => {
  if (type === RUN) run(id, code, language, variables).catch(() => {});
}, () => process.kill(process.pid, 'SIGKILL'));
// What is slow the first time happens before anybody waits for it.
await post('Runtime.evaluate', { expression: '0', replMode: true, awaitPromise: true });
send(workerData.line, READY, 0, [process.versions.node]);
