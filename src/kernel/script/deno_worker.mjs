// The second thread of the Deno interpreter; see drive.mjs. It connects to V8's inspector over loopback,
// as debuggers do, and handles interrupts.

import { drive, plain } from './drive.mjs';
import { PREFIX } from './deno_prefix.mjs';

const PATIENCE_MS = 30; // between two looks whether the main thread computes,
const MOST_MS = 1000; // and until it is taken to do so
const COMPUTES = 10; // ticks of processor time (10 ms each): a thread that waits for its turn has none
const EARLY_MS = 20; // for code that was sent before the interrupt, and not read yet

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

const later = (ms) => new Promise((resolve) => { setTimeout(resolve, ms, 'late'); });

/** Ticks that the main thread has had. */
function ticks() {
  const fields = Deno.readTextFileSync(`/proc/self/task/${Deno.pid}/stat`).split(') ').at(-1).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/** Ends what computes, if anything does: an order to end that finds nothing could end Deno itself. */
async function rest({ post, running }, id) {
  const [answer, begin, had] = [answered(), Date.now(), ticks()];
  while (await Promise.race([answer, later(PATIENCE_MS)]) === 'late')
    if (ticks() - had >= COMPUTES || Date.now() - begin > MOST_MS) {
      if (running() === id) await post('Runtime.terminateExecution'); // no other run
      break;
    }
  await answer;
}

/** Ends the code that computes, or the run that waits. */
async function interrupt(control) {
  if (control.running() === 0) await later(EARLY_MS);
  const id = control.running();
  if (id === 0) return;
  await rest(control, id);
  await control.call('interrupt', plain(id));
  await rest(control, id); // the cell may have been about to begin
  control.stopped(id);
}

onmessage = async ({ data: { url, line, version } }) => {
  onmessage = () => heard();
  const post = await connect(url);
  const control = { post, running: () => 0 };
  Deno.addSignalListener('SIGINT', () => interrupt(control).catch(() => {}));
  await drive({ post, line, version, control, prefix: PREFIX, typed: true, settles: false });
};
