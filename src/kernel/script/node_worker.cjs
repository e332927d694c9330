// The other thread of the Node kernel: see node_worker.mjs, which is loaded faster from here.

require('./node_worker.mjs');
