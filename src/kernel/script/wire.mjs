// Frames between an interpreter and the process that started it. The C side is kernel/frame.h, the
// Python side is cells/wire.py.

import { Buffer } from 'node:buffer';
import fs from 'node:fs';
import net from 'node:net';

export const [RUN, ENV] = [1, 2];
export const [READY, DISPLAY, ERROR, DONE] = [128, 129, 130, 131];
export const MAIN = 1; // flag of DISPLAY: the value of the last expression
const HEAD = 12;
const FRAME_MAX = 64 << 20;

function field(value) {
  if (typeof value === 'number') {
    const number = Buffer.alloc(4);
    number.writeUInt32LE(value);
    return [number];
  }
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(String(value));
  return [...field(bytes.length), bytes];
}

/** Writes at once, so that a frame is sent before the code after it runs. */
export function send(fd, type, id, fields, flags = 0) {
  const parts = fields.flatMap(field);
  const head = Buffer.alloc(HEAD);
  head.writeUInt32LE(parts.reduce((sum, part) => sum + part.length, 0), 0);
  head.writeUInt16LE(type, 4);
  head.writeUInt16LE(flags, 6);
  head.writeUInt32LE(id, 8);
  writeAll(fd, Buffer.concat([head, ...parts]));
}

let writeSome = (fd, data, at) => fs.writeSync(fd, data, at);

/** For programs whose own writing knows only descriptors that they opened. */
export function writeWith(write) {
  writeSome = (fd, data, at) => write(fd, data.subarray(at));
}

export function writeAll(fd, data) {
  for (let at = 0; at < data.length;)
    try {
      at += writeSome(fd, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
}

/** Calls `frame(type, id, texts)` for each; `end` when the other side has closed. */
export function receive(fd, frame, end) {
  let waiting = Buffer.alloc(0);
  const socket = new net.Socket({ fd, readable: true, writable: false });
  socket.on('data', (data) => {
    waiting = waiting.length === 0 ? data : Buffer.concat([waiting, data]);
    while (waiting.length >= HEAD) {
      const size = waiting.readUInt32LE(0);
      if (size > FRAME_MAX) return end();
      if (waiting.length < HEAD + size) return;
      frame(waiting.readUInt16LE(4), waiting.readUInt32LE(8), texts(waiting.subarray(HEAD, HEAD + size)));
      waiting = waiting.subarray(HEAD + size);
    }
  });
  socket.on('end', end).on('error', end);
}

function texts(data) {
  const found = [];
  for (let at = 0; at + 4 <= data.length;) {
    const size = data.readUInt32LE(at);
    found.push(data.toString('utf8', at + 4, at + 4 + size));
    at += 4 + size;
  }
  return found;
}
