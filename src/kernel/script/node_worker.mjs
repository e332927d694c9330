// The Node kernel's other thread; see drive.mjs.

import inspector from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import { drive } from './drive.mjs';

const session = new inspector.Session();
const post = (method, params) => new Promise((resolve, reject) =>
  session.post(method, params, (error, result) => error ? reject(error) : resolve(result)));

// The first word says that the main thread has all that is called there. Listening keeps this thread
// alive while it waits for the inspector.
parentPort.on('message', () => {});
parentPort.once('message', () => {
  session.connectToMainThread();
  // Node's queues move on only after a call-back of its own.
  drive({ post, line: workerData.line, version: process.versions.node, control: {}, nudge: () => parentPort.postMessage(null) });
});
