// ONNX Runtime over the same weights, as the peer of our embeddings. Stays and answers a line for a
// line: first the texts as lists of token ids (JSON), then `batch` (all of them) or `query` (the
// first one); the answer comes when the vectors are there.
//
//   node embed_peers.mjs WEIGHTS THREADS
//
// Run from the source tree; packages are those of tools/npm/bench. Texts are sorted by their length
// and padded in batches of 8, as sentence-transformers does it.
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { minilmOnnx, minilmRun } from '../../tests/integration/minilm_onnx.mjs';

const BATCH = 8;
const [file, threads] = process.argv.slice(2);
const ort = createRequire(join(resolve('build/npm/bench/node_modules'), 'x.js'))('onnxruntime-node');
const session = await ort.InferenceSession.create(minilmOnnx(file), { intraOpNumThreads: Number(threads), interOpNumThreads: 1 });

let first, sorted;
for await (const line of createInterface({ input: process.stdin })) {
  if (sorted === undefined) {
    const lists = JSON.parse(line);
    first = lists[0];
    sorted = lists.toSorted((a, b) => a.length - b.length);
  } else if (line === 'batch') {
    for (let from = 0; from < sorted.length; from += BATCH) await minilmRun(ort, session, sorted.slice(from, from + BATCH));
  } else await minilmRun(ort, session, [first]);
  console.log('done');
}
