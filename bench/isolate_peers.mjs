// Peers of the isolate suite, each in a warm process. Prints one JSON line per row: {"name",
// "samples"} in microseconds or {"name", "value", "unit"}; {"skip", "why"} for a peer that is not
// there, {"file"} for a source that all strippers are measured on.
//
//   node isolate_peers.mjs fresh              new contexts and engines
//   node isolate_peers.mjs compute [NAME]     the compute cases, as rows NAME_CASE (node)
//   node isolate_peers.mjs compute-wasi       the same in quickjs-wasi
//   node isolate_peers.mjs strip              types out of TypeScript
//
// Run from the source tree; packages are those of tools/npm/bench.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import vm from 'node:vm';

const [what, prefix = 'node'] = process.argv.slice(2);
const modules = resolve('build/npm/bench/node_modules');
const require = createRequire(join(modules, 'x.js'));
const say = (row) => console.log(JSON.stringify(row));

const measure = async (name, count, run) => {
    const samples = [];
    for (let i = 0; i < count + count / 10; i++) {
        const start = performance.now();
        await run();
        if (i >= count / 10) samples.push((performance.now() - start) * 1000);
    }
    say({ name, samples });
};
const expect2 = (value) => { if (value !== 2) throw new Error(`1+1 gave ${value}`); };
const attempt = async (name, run) => {
    try { await run(); } catch (error) { say({ skip: name, why: String(error.message).split('\n')[0] }); }
};
const wasi = async () => {
    const { QuickJS } = await import(join(modules, 'quickjs-wasi/dist/index.js'));
    return { QuickJS, wasm: await WebAssembly.compile(readFileSync(join(modules, 'quickjs-wasi/quickjs.wasm'))) };
};

async function fresh() {
    await measure('node_vm_fresh', 1000, () => expect2(vm.runInContext('1+1', vm.createContext({}))));
    await attempt('quickjs_wasi_fresh', async () => {
        const { QuickJS, wasm } = await wasi();
        await measure('quickjs_wasi_fresh', 1000, async () => {
            const isolate = await QuickJS.create({ wasm });
            expect2(isolate.evalCode('1+1').toNumber());
            isolate.dispose();
        });
    });
    await attempt('quickjs_emscripten_fresh', async () => {
        const { getQuickJS } = require('quickjs-emscripten');
        const engine = await getQuickJS();
        await measure('quickjs_emscripten_fresh', 1000, () => {
            const context = engine.newContext();
            const value = context.unwrapResult(context.evalCode('1+1'));
            expect2(context.getNumber(value));
            value.dispose();
            context.dispose();
        });
    });
    await attempt('isolated_vm_fresh', async () => {
        const ivm = require('isolated-vm');
        await measure('isolated_vm_fresh', 1000, () => {
            const isolate = new ivm.Isolate({ memoryLimit: 16 });
            expect2(isolate.createContextSync().evalSync('1+1'));
            isolate.dispose();
        });
    });
}

const cases = Object.entries(JSON.parse(readFileSync('bench/isolate_compute.json', 'utf8')));

async function compute() {
    for (const [name, code] of cases) await measure(`${prefix}_${name}`, 10, () => vm.runInNewContext(code));
}

async function computeWasi() {
    const { QuickJS, wasm } = await wasi();
    for (const [name, code] of cases) {
        const isolate = await QuickJS.create({ wasm });
        await measure(`quickjs_wasi_${name}`, 10, () => isolate.evalCode(code).dispose());
    }
}

// The same files for all: those that ts-blank-space accepts (none with an enum or a namespace).
async function strip() {
    const ROUNDS = 3;
    const { default: blank } = await import(join(modules, 'ts-blank-space/out/index.js'));
    const esbuild = require('esbuild');
    const files = ['rxjs/src', 'effect/src']
        .flatMap((dir) => readdirSync(join(modules, dir), { recursive: true }).map((name) => join(modules, dir, name)))
        .filter((name) => name.endsWith('.ts') && statSync(name).size <= 512 << 10)
        .filter((name) => { let ok = true; blank(readFileSync(name, 'utf8'), () => (ok = false)); return ok; });
    for (const file of files) say({ file });
    const texts = files.map((name) => readFileSync(name, 'utf8'));
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    const speed = async (name, transform) => {
        for (const text of texts) await transform(text);
        const start = performance.now();
        for (let i = 0; i < ROUNDS; i++) for (const text of texts) await transform(text);
        say({ name, unit: 'MB/s', value: (bytes * ROUNDS) / (performance.now() - start) / 1000 });
    };
    await speed('strip_ts_blank_space', (text) => blank(text));
    await speed('strip_esbuild', (text) => esbuild.transform(text, { loader: 'ts' }));
    const small = readFileSync('bench/isolate_small.ts', 'utf8');
    await measure('strip_small_ts_blank_space', 1000, () => blank(small));
    await measure('strip_small_esbuild', 1000, () => esbuild.transform(small, { loader: 'ts' }));
    esbuild.stop?.();
}

await { fresh, compute, 'compute-wasi': computeWasi, strip }[what]();
process.exit(0);
