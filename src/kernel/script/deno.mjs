// The Deno kernel's main thread: deno run -A deno.mjs. See around.mjs; deno_worker.mjs drives it.

import fs from 'node:fs';
import inspector from 'node:inspector';
import module from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { Buffer } from 'node:buffer';
import { Exit, furnish, here, NoInput, rejected, stray } from './around.mjs';
import { shiftColumns } from './display.mjs';
import { PREFIX } from './deno_prefix.mjs';
import { writeWith } from './wire.mjs';

globalThis.Buffer ??= Buffer;
const addon = { exports: {} };
process.dlopen(addon, path.join(import.meta.dirname, 'kernel-node.node'));
const { takeLine, write } = addon.exports;
writeWith(write); // Deno knows no descriptors but its own
const lineFd = takeLine();
shiftColumns(PREFIX.length);

// ---- imports ----

const require = () => module.createRequire(here());
const CACHE = process.env.DENO_DIR;
const isPlain = (name) => /^(?:@[^/]+\/)?[^./:][^:]*$/.test(name) && !module.isBuiltin(name);
const packageOf = (name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)[0];

/** The address of a package that an installation has brought, the newest of it; undefined without one. */
function installed(name) {
  const owner = packageOf(name);
  const versions = fs.globSync(`${CACHE}/npm/*/${owner}/[0-9]*`).map((found) => path.basename(found));
  const [newest] = versions.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  return newest === undefined ? undefined : `npm:${owner}@${newest}${name.slice(owner.length)}`;
}

/** What a module of CommonJS looks like to an import. */
const asModule = (value) => value?.[Symbol.toStringTag] === 'Module' ? value
  : { __proto__: null, ...(typeof value === 'object' ? value : {}), default: value };

/** A name without a path: of node_modules, as Node finds it, or of npm when it was installed. */
function loadPlain(name, options) {
  try {
    return asModule(require()(name));
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND' || !error.message.includes(`'${name}'`)) throw error;
  }
  const found = installed(name);
  if (found !== undefined) return import(found, options);
  throw Object.assign(new TypeError(`Cannot find module '${name}'`), { code: 'ERR_MODULE_NOT_FOUND', missing: packageOf(name) });
}

async function load(name, options) {
  name = String(name);
  if (isPlain(name)) return loadPlain(name, options);
  const isRelative = /^\.{0,2}\//.test(name);
  try {
    return await import(isRelative ? new URL(name, here()).href : name, options);
  } catch (error) {
    // Packages that it could not bring by itself.
    if (/^(?:npm|jsr):/.test(name) && error.code === 'ERR_MODULE_NOT_FOUND') error.missing = name;
    throw error;
  }
}

// ---- what is different around the code ----

// Deno's own would tell nobody which cell a line is of.
Error.prepareStackTrace = (error, sites) => {
  let head;
  try {
    head = Error.prototype.toString.call(error);
  } catch {
    head = 'Error';
  }
  return [head, ...sites.map((site) => `    at ${site}`)].join('\n');
};

/** An interrupt that ends a call from Deno's own loop would end Deno; one that ends a microtask does not. */
function inMicrotask(make) {
  const wrapped = (call, ...rest) => make(
    typeof call === 'function' ? (...args) => { Promise.resolve().then(() => call(...args)).catch(stray); } : call, ...rest);
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(make));
}
for (const name of ['setTimeout', 'setInterval']) globalThis[name] = inMicrotask(globalThis[name]);

for (const [kind, tell] of [['error', ({ error }) => stray(error)], ['unhandledrejection', ({ reason }) => rejected(reason)]])
  globalThis.addEventListener(kind, (event) => {
    event.preventDefault();
    tell(event);
  });

furnish({ lineFd, load, require });
Deno.exit = process.exit;
globalThis.close = () => { throw new Exit(0); };
globalThis.confirm = globalThis.alert = () => { throw new NoInput(); };
process.reallyExit = () => Deno.kill(Deno.pid, 'SIGKILL');

inspector.open(0, '127.0.0.1');
const worker = new Worker(new URL('./deno_worker.mjs', import.meta.url), { type: 'module', name: 'kernel' });
worker.onmessage = ({ data }) => worker.postMessage(data); // answers as soon as nothing computes
worker.onerror = (event) => {
  event.preventDefault();
  stray(event.error ?? new Error(event.message));
  process.reallyExit();
};
worker.postMessage({ url: inspector.url(), line: lineFd, version: Deno.version.deno });
