// Peers of the isolate suite, each in a warm process: prints one JSON line per row,
// {"name", "samples"} in microseconds.
//
//   node isolate_peers.mjs fresh ROOT     new contexts and engines
//   node isolate_peers.mjs compute ROOT [name]   the compute cases, as rows name_CASE
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

const [what, root, prefix] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(join(root, 'bench/isolate_compute.json'), 'utf8'));
const wasi = join(root, 'build/npm/build/node_modules/quickjs-wasi');

const row = (name, samples) => console.log(JSON.stringify({ name, samples }));
const measure = async (name, count, run) => {
    const samples = [];
    for (let i = 0; i < count + count / 10; i++) {
        const start = performance.now();
        await run();
        if (i >= count / 10) samples.push((performance.now() - start) * 1000);
    }
    row(name, samples);
};
const engine = async () => {
    const { QuickJS } = await import(pathToFileURL(join(wasi, 'dist/index.js')));
    const wasm = await WebAssembly.compile(readFileSync(join(wasi, 'quickjs.wasm')));
    return { QuickJS, wasm };
};

if (what === 'fresh') {
    await measure('node_vm_fresh', 1000, () => {
        if (vm.runInContext('1+1', vm.createContext({})) !== 2) throw new Error('wrong');
    });
    const { QuickJS, wasm } = await engine();
    await measure('quickjs_wasi_fresh', 300, async () => {
        const isolate = await QuickJS.create({ wasm });
        if (isolate.evalCode('1+1').toNumber() !== 2) throw new Error('wrong');
        isolate.dispose();
    });
} else {
    for (const [name, code] of Object.entries(cases))
        await measure(`${prefix ?? 'node'}_${name}`, 7, () => vm.runInNewContext(code));
    if (prefix === undefined) {
        const { QuickJS, wasm } = await engine();
        for (const [name, code] of Object.entries(cases)) {
            const isolate = await QuickJS.create({ wasm });
            await measure(`quickjs_wasi_${name}`, 5, () => isolate.evalCode(code).dispose());
        }
    }
}
