// The Deno kernel's other thread; see drive.mjs. It speaks to V8's inspector as debuggers do, over
// loopback, and hears interrupts.

import { drive, plain } from './drive.mjs';
import { PREFIX } from './deno_prefix.mjs';

const PATIENCE_MS = 30; // for the main thread to say that it computes nothing

/** Asks the inspector; see drive.mjs. */
async function connect(url) {
  const waiting = new Map();
  let asked = 0;
  const socket = new WebSocket(url);
  await new Promise((opened, failed) => {
    socket.onopen = opened;
    socket.onerror = failed;
  });
  socket.onmessage = ({ data }) => {
    const { id, result, error } = JSON.parse(data);
    const [resolve, reject] = waiting.get(id) ?? [];
    waiting.delete(id);
    if (error !== undefined) reject?.(new Error(error.message)); else resolve?.(result);
  };
  socket.onclose = () => Deno.kill(Deno.pid, 'SIGKILL');
  return (method, params) => new Promise((resolve, reject) => {
    waiting.set(asked += 1, [resolve, reject]);
    socket.send(JSON.stringify({ id: asked, method, params }));
  });
}

let heard = () => {};

/** Waits until the main thread answers. */
const answered = () => new Promise((resolve) => {
  heard = resolve;
  postMessage('ping');
});

/** Ends the code that computes, or the run that waits. */
async function interrupt({ post, call, running }) {
  const id = running();
  const answer = answered();
  const late = new Promise((resolve) => { setTimeout(resolve, PATIENCE_MS, 'late'); });
  if (await Promise.race([answer, late]) === 'late') await post('Runtime.terminateExecution');
  await answer;
  await call('interrupt', plain(id));
}

onmessage = async ({ data: { url, line, version } }) => {
  onmessage = () => heard();
  const post = await connect(url);
  const ours = { post };
  Deno.addSignalListener('SIGINT', () => interrupt(ours).catch(() => {}));
  Object.assign(ours, await drive({ post, line, version, prefix: PREFIX, typed: true }));
};
