// What a value is shown as: a bundle of MIME type to data, as notebooks know it.

import { Buffer } from 'node:buffer';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import util from 'node:util';

const BUNDLE = Symbol.for('Jupyter.display');
const METHODS = [
  ['text/html', '_repr_html_'], ['text/markdown', '_repr_markdown_'], ['text/latex', '_repr_latex_'],
  ['image/svg+xml', '_repr_svg_'], ['image/png', '_repr_png_'], ['image/jpeg', '_repr_jpeg_'],
  ['application/json', '_repr_json_'],
];
const PICTURES = [['image/png', '89504e470d0a1a0a'], ['image/jpeg', 'ffd8ff']];
const PARTS_MAX = 32; // see runtime/interpreter.h
const BYTES_MAX = 32 << 20; // of a bundle; what is longer is left out, the text first cut
const TEXT_MAX = 4 << 20;

export const inspect = (value) =>
  util.inspect(value, { depth: 4, breakLength: 79, maxArrayLength: 200, maxStringLength: 1 << 20 });

/** What JSON has no word for, in the words that isolates use. */
function plain(key, value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'symbol' || typeof value === 'function') return inspect(value);
  if (value instanceof Map || value instanceof Set) return [...value];
  if (value instanceof RegExp) return String(value);
  if (util.types.isNativeError(value))
    return { name: value.name, message: value.message, stack: trimmed(value) };
  return value;
}

/** The value as JSON; undefined for what it cannot hold. */
function asJson(value) {
  try {
    const text = JSON.stringify(value, plain);
    return text !== undefined && text.length <= TEXT_MAX ? text : undefined;
  } catch {
    return undefined; // it contains itself, say
  }
}

const HERE = path.dirname(fileURLToPath(import.meta.url));

let shift = 0;
/** Column numbers in a cell's first line are reported without the prefix that the interpreter adds. */
export function shiftColumns(columns) {
  shift = columns;
}
const unshifted = (text) => shift === 0 ? text
  : text.replace(/\b(cell-\d+:1:)(\d+)/g, (whole, place, column) => place + Math.max(1, column - shift));

/** An error's stack with the frames of the user's own code; ours and Node's tell nobody anything. */
export function trimmed(error) {
  const lines = String(error.stack ?? `${error.name}: ${error.message}`).split('\n');
  return lines.filter((text) => !/^\s+at /.test(text) ||
    !(/\(?(?:node|ext):/.test(text) || /\(<anonymous>\)$/.test(text) || text.includes(HERE))).map(unshifted).join('\n');
}

const isBytes = (data) => ArrayBuffer.isView(data) || data instanceof ArrayBuffer;
const bytesOf = (data) => ArrayBuffer.isView(data)
  ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(data);

/** As it travels: pictures are bytes, and notebooks hand them over in base64. */
function encode(mime, data) {
  if (isBytes(data)) return bytesOf(data);
  if (typeof data !== 'string') return Buffer.from(JSON.stringify(data) ?? 'null');
  return Buffer.from(data, /^(?:image|audio|video)\/(?!svg)/.test(mime) ? 'base64' : 'utf8');
}

/** What the value offers by itself. One that cannot draw itself is still shown as text. */
async function offered(value, found) {
  try {
    const own = typeof value[BUNDLE] === 'function' ? await value[BUNDLE]()
      : typeof value._repr_mimebundle_ === 'function' ? await value._repr_mimebundle_() : undefined;
    for (const [mime, data] of Object.entries(own ?? {})) found.set(mime, data);
    for (const [mime, name] of METHODS)
      if (!found.has(mime) && typeof value[name] === 'function') found.set(mime, await value[name]());
  } catch { /* see above */ }
}

function picture(value, found) {
  if (!isBytes(value)) return;
  const head = bytesOf(value).subarray(0, 8).toString('hex');
  for (const [mime, magic] of PICTURES)
    if (head.startsWith(magic)) found.set(mime, value);
}

export async function bundle(value) {
  const found = new Map();
  if (value !== null && typeof value === 'object') {
    await offered(value, found);
    picture(value, found);
  }
  if (!found.has('text/plain')) found.set('text/plain', inspect(value));
  const json = found.has('application/json') ? undefined : asJson(value);
  if (json !== undefined) found.set('application/json', json);
  const parts = [];
  let room = BYTES_MAX;
  for (const [mime, data] of found) {
    if (data === undefined || data === null || parts.length === PARTS_MAX) continue;
    const bytes = encode(mime, data);
    if (bytes.length > room) continue;
    room -= bytes.length;
    parts.push([mime, bytes]);
  }
  return parts;
}
