// TypeScript stripping: MB/s of sandglass, ts-blank-space and esbuild, warm, in the same run, over
// the same files (all that each of them accepts: files with enums and the like are left out).
//
//   node bench/strip.mjs      SG_BUILD: build tree, default build/release

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const build = path.resolve(root, process.env.SG_BUILD ?? 'build/release');
const modules = path.join(root, 'build/npm/test/node_modules');
const require = createRequire(path.join(modules, 'x.js'));
const { default: blank } = await import(pathToFileURL(path.join(modules, 'ts-blank-space/out/index.js')));
const esbuild = require('esbuild');
const ROUNDS = 3;

function accepted(name) {
  let ok = true;
  blank(fs.readFileSync(name, 'utf8'), () => (ok = false));
  return ok;
}

const dir = path.join(modules, 'rxjs/src');
const effect = path.join(modules, 'effect/src');
const files = [dir, effect]
  .flatMap((from) => fs.readdirSync(from, { recursive: true }).map((name) => path.join(from, name)))
  .filter((name) => name.endsWith('.ts') && fs.statSync(name).size <= 512 << 10 && accepted(name));
const texts = files.map((name) => fs.readFileSync(name, 'utf8'));
const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

async function speed(transform) {
  for (const text of texts) await transform(text);
  const start = process.hrtime.bigint();
  for (let i = 0; i < ROUNDS; i++) for (const text of texts) await transform(text);
  return (bytes * ROUNDS) / (Number(process.hrtime.bigint() - start) / 1e9) / 1e6;
}

const run = spawnSync(path.join(build, 'bench/strip_speed'), { input: files.join('\n') + '\n', encoding: 'utf8' });
if (run.status !== 0) throw new Error(`strip_speed: ${run.stderr}`);
const ours = JSON.parse(run.stdout);
const row = (name, value) => console.log(`${name.padEnd(24)} ${value}`);
row('files, bytes', `${files.length}, ${bytes}`);
row('strip_sandglass', `${ours.mb_per_s.toFixed(1)} MB/s`);
row('strip_ts_blank_space', `${(await speed((text) => blank(text))).toFixed(1)} MB/s`);
row('strip_esbuild', `${(await speed((text) => esbuild.transform(text, { loader: 'ts' }))).toFixed(1)} MB/s`);
row('strip_small_p50', `${ours.small_p50_us} us for ${ours.small_bytes} bytes`);
