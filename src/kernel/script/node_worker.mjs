// The Node kernel's other thread; see drive.mjs.

import inspector from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import { drive } from './drive.mjs';

parentPort.on('message', () => {}); // keeps this thread alive while it waits for the inspector

const session = new inspector.Session();
session.connectToMainThread();
const post = (method, params) => new Promise((resolve, reject) =>
  session.post(method, params, (error, result) => error ? reject(error) : resolve(result)));

// Node's queues move on only after a call-back of its own.
await drive({ post, line: workerData.line, version: process.versions.node, nudge: () => parentPort.postMessage(null) });
