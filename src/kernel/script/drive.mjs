// What drives a kernel of JavaScript, in a thread of its own: it reads the line and has V8 evaluate
// cells on the main thread, through V8's own REPL mode, which knows top-level await, the value of the
// last expression and names declared again.
//
// It is a thread because answers of V8's inspector may come at any time, in the middle of a garbage
// collection too (a promise that can never settle is collected with the cell that waits for it), and
// only another thread can take them then. No frame of ours lies below a cell, so that an interrupt
// ends the cell and nothing else.

import module from 'node:module';
import process from 'node:process';
import { asScript, assigning } from './rewrite.mjs';
import { ENV, receive, RUN } from './wire.mjs';

const NAMES_MAX = 16; // of one cell that were declared in another way before
export const plain = (value) => ({ value });

/** Types blanked out in place; what has code behind it (enum, namespace) is compiled instead. */
function withoutTypes(code) {
  try {
    return module.stripTypeScriptTypes(code);
  } catch (error) {
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    return module.stripTypeScriptTypes(code, { mode: 'transform' });
  }
}

/** The line of the code with a mark below it. */
function marked(code, name, line, column) {
  const text = code.split('\n')[line];
  return text === undefined ? '' : `${name}:${line + 1}\n${text}\n${' '.repeat(Math.max(0, column))}^\n\n`;
}

/** V8 knows where a syntax error is, and its stack does not say. */
function placeOf({ exception, lineNumber, columnNumber, stackTrace }, code, name, prefix) {
  if (exception?.className !== 'SyntaxError' || stackTrace !== undefined) return '';
  return marked(code, name, lineNumber, columnNumber - (lineNumber === 0 ? prefix.length : 0));
}

/** What is wrong with the types, and where: Deno says that in the message, Node draws it into the stack. */
function refusal({ message, stack }, code, name) {
  const [, at, offset] = /\.ts:(\d+):(\d+)$/.exec(message) ?? [];
  const [, line = at, indent = ' '.repeat(offset - 1 || 0)] = /^:(\d+)\n(?:[^]*?\n( *)\^)?/.exec(stack) ?? [];
  const [text] = message.replace(/^SyntaxError: /, '').split('\n  |');
  return [text, marked(code, name, line - 1, indent.length)];
}

/** The name that an earlier script has declared in another way; V8 says so before the script begins. */
function declaredBefore({ exception, lineNumber, columnNumber } = {}) {
  if (exception?.className !== 'SyntaxError' || lineNumber !== 0 || columnNumber !== 0) return undefined;
  return /^SyntaxError: Identifier '([^']+)' has already been declared/.exec(exception.description)?.[1];
}

const argument = ({ objectId, unserializableValue, value }) =>
  objectId !== undefined ? { objectId } : unserializableValue !== undefined ? { unserializableValue } : { value };

/** `post(method, params)` asks the inspector, `nudge()` has the main thread's queues move on, `prefix`
 * stands before every cell, `typed` says that JavaScript is TypeScript too, `settles` that promises settle
 * before the first cell runs. `control` takes what can be asked
 * about it, before the first run: `running()`, the number of the run under way or 0, `call`, for functions of
 * around.mjs, and `stopped(id)`, for a run whose code was ended and will not say so. */
export async function drive({ post, line, version, control, nudge = () => {}, prefix = '', typed = false, settles = true }) {
  let count = 0;
  let running = 0;
  const { result: kernel } = await post('Runtime.evaluate', {
    expression: 'globalThis[Symbol.for("sandglass.kernel")]' });

  /** Calls a function of around.mjs on the main thread. */
  const call = (name, ...args) => post('Runtime.callFunctionOn', {
    objectId: kernel.objectId, arguments: args, functionDeclaration: `function (...args) { this.${name}(...args); }` });

  const stopped = (id) => { if (running === id) running = 0; };

  /** Asks the inspector for something that the main thread's queues bring about. */
  const moved = (method, params) => {
    const answer = post(method, params);
    nudge();
    return answer;
  };

  /** The answer to the script; one whose value is a promise is answered when that is settled. */
  async function answerTo(script, name, objectGroup, tries = NAMES_MAX) {
    const answer = await moved('Runtime.evaluate', { expression: `${prefix}${script}\n//# sourceURL=${name}`,
      replMode: true, awaitPromise: true, objectGroup });
    const before = declaredBefore(answer.exceptionDetails);
    const next = before === undefined || tries === 0 ? script : assigning(script, before);
    if (next !== script) return answerTo(next, name, objectGroup, tries - 1);
    return answer.exceptionDetails === undefined && answer.result.subtype === 'promise'
      ? moved('Runtime.awaitPromise', { promiseObjectId: answer.result.objectId }) : answer;
  }

  async function evaluate(id, name, code) {
    try {
      const { result, exceptionDetails: failure } = await answerTo(asScript(code), name, `run-${id}`);
      if (failure === undefined) await call('settle', plain(id), argument(result));
      else await call('fail', plain(id), argument(failure.exception ?? result), plain(placeOf(failure, code, name, prefix)));
    } catch (error) {
      // "Promise was collected": what it waits for never comes, and it waits on until it is stopped.
      if (error.message.includes('terminated')) await call('interrupt', plain(id));
    }
    post('Runtime.releaseObjectGroup', { objectGroup: `run-${id}` }).catch(() => {});
    nudge();
  }

  async function run(id, code, language, variables) {
    const name = `cell-${count += 1}`;
    running = id;
    call('begin', plain(id), plain(count), plain(variables)).catch(() => {});
    const isTyped = /^(?:m|c)?ts$|^typescript$/i.test(language);
    try {
      if (typed || isTyped) code = withoutTypes(code);
    } catch (error) {
      if (isTyped) {
        stopped(id);
        return call('refuse', plain(id), ...refusal(error, code, name).map(plain));
      }
      // V8 says what is wrong with it as JavaScript.
    }
    await evaluate(id, name, code);
    stopped(id);
  }

  Object.assign(control, { call, stopped, running: () => running });
  // When the peer closes the connection, end the process even if it is busy.
  receive(line, (type, id, [code, language, variables = '']) => {
    if (type === RUN) run(id, code, language, variables).catch(() => {});
    if (type === ENV) call('dress', plain(code)).catch(() => {});
  }, () => process.kill(process.pid, 'SIGKILL'));
  // What is slow the first time is done before the first request.
  asScript('const warm = { text: "" };\nimport("warm")');
  await post('Runtime.evaluate', { expression: `${prefix}0`, replMode: true, awaitPromise: true });
  // With packages in node_modules, Deno settles no promise before code runs: its own is not waited for.
  await post('Runtime.callFunctionOn', { objectId: kernel.objectId, awaitPromise: settles,
    functionDeclaration: 'function () { return this.warm(); }' });
  await call('ready', plain(version));
}
