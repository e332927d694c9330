// Runs in the sandbox of a snapshot's build, behind npm: node --input-type=module - PACKAGE...
// Prints one line of JSON for each package: its version, whether it can be imported, and, when SG_BUNDLE names a
// directory with esbuild, its code as one module for isolates.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { builtinModules } from 'node:module';

const BUNDLE_MAX = 4 << 20, IMPORT_MS = 30000;
const bundler = process.env.SG_BUNDLE ? `${process.env.SG_BUNDLE}/node_modules/.bin/esbuild` : undefined;
const firstLine = (text) => text.trim().split('\n').find((line) => /error/i.test(line)) ?? text.trim().split('\n')[0];

/** The names that it exports, as Node sees them; or why it cannot be imported. */
function look(name) {
  const code = `import { inspect } from 'node:util'; let told;
    try { told = { names: Object.keys(await import(${JSON.stringify(name)})) }; }
    catch (error) { told = { reason: error instanceof Error ? String(error).split('\\n')[0] : 'it threw ' + inspect(error) }; }
    console.log('\\n' + JSON.stringify(told)); process.exit(0);`;
  const ran = spawnSync(process.execPath, ['--input-type=module', '-e', code],
    { cwd: '/', encoding: 'utf8', timeout: IMPORT_MS, stdio: ['ignore', 'pipe', 'pipe'] });
  if (ran.status !== 0) return { reason: ran.error ? `import took more than ${IMPORT_MS / 1000} s` : firstLine(ran.stderr) };
  return JSON.parse(ran.stdout.trim().split('\n').at(-1));
}

/** Node's own modules do not exist in an isolate: each is replaced with one that says so when it is used. */
function makeStubs(dir) {
  const options = [];
  for (const name of builtinModules.filter((each) => !each.startsWith('_') && !each.includes(':'))) {
    const file = `${dir}/${name.replaceAll('/', '+')}.cjs`;
    fs.writeFileSync(file, `module.exports = new Proxy(function () {}, { get(_, key) {
      if (typeof key === 'symbol' || key === '__esModule' || key === 'then' || key === 'prototype') return undefined;
      return () => { throw new Error(${JSON.stringify(`Node's module '${name}' does not exist in an isolate`)}); };
    } });`);
    options.push(`--alias:${name}=${file}`, `--alias:node:${name}=${file}`);
  }
  return options;
}

/** One module with the package and its dependencies, or the reason why it cannot be built. */
function bundle(name, names, index, stubs) {
  const dir = process.env.SG_BUNDLE, entry = `${dir}/entry${index}.mjs`, out = `${dir}/out${index}.mjs`;
  const own = names.filter((each) => each !== 'default' && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(each));
  fs.writeFileSync(entry, `import * as all from ${JSON.stringify(name)};\n`
    + own.map((each, i) => `const v${i} = all[${JSON.stringify(each)}];\n`).join('')
    + `export { ${own.map((each, i) => `v${i} as ${each}`).join(', ')} };\n`
    + (names.includes('default') ? 'export default all.default;\n' : 'export default all;\n'));
  const ran = spawnSync(bundler, [entry, '--bundle', '--format=esm', '--platform=browser', '--target=es2022', '--charset=utf8',
    '--log-level=error', '--define:process.env.NODE_ENV="production"', '--define:global=globalThis', `--outfile=${out}`, ...stubs],
  { cwd: '/', encoding: 'utf8', env: { ...process.env, NODE_PATH: '/node_modules' } });
  if (ran.status !== 0) return { bundleReason: ran.error ? String(ran.error.message) : firstLine(ran.stderr) };
  const text = fs.readFileSync(out, 'utf8');
  return text.length > BUNDLE_MAX ? { bundleReason: `it is larger than ${BUNDLE_MAX >> 20} MiB in one piece` } : { bundle: text };
}

const hasBundler = bundler !== undefined && fs.existsSync(bundler);
const stubs = hasBundler ? makeStubs(process.env.SG_BUNDLE) : [];
for (const [index, name] of process.argv.slice(2).entries()) {
  const about = { package: name };
  try {
    about.version = JSON.parse(fs.readFileSync(`/node_modules/${name}/package.json`, 'utf8')).version;
    const { names, reason } = look(name);
    about.importable = names !== undefined;
    if (reason !== undefined) about.reason = reason.slice(0, 200);
    if (hasBundler) Object.assign(about, bundle(name, names ?? [], index, stubs));
    else if (bundler !== undefined) about.bundleReason = 'esbuild could not be installed';
  } catch (error) {
    about.reason ??= String(error.message).slice(0, 200);
  }
  process.stdout.write(`${JSON.stringify(about)}\n`);
}
