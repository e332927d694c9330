// The Node kernel: node node.cjs. Its other thread takes longest to start, so it is started before
// anything else is loaded; see node.mjs.

const path = require('node:path');
const { SHARE_ENV, Worker } = require('node:worker_threads');

const addon = { exports: {} };
process.dlopen(addon, path.join(__dirname, 'kernel-node.node'));
const line = addon.exports.takeLine();
const worker = new Worker(path.join(__dirname, 'node_worker.cjs'), { workerData: { line }, stdin: true, env: SHARE_ENV });
require('./packages.cjs'); // also where NODE_OPTIONS was set by the user
require('./node.mjs').start(addon.exports, line, worker);
