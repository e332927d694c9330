// Package indexes on loopback: Python's and npm's, with packages that a test makes.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { tempDir } from './lib.mjs';

// A wheel is a zip; Python packs it.
const PACK = `
import sys, zipfile
path, name, version, module, source, needs = sys.argv[1:]
info = f"{name}-{version}.dist-info"
meta = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n" + (f"Requires-Dist: {needs}\\n" if needs else "")
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr(f"{module}.py", source)
    wheel.writestr(f"{info}/METADATA", meta)
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
`;

export async function startIndex(t) {
  const dir = tempDir(t);
  const index = { asked: [], wheels: {} };
  index.add = (name, version, module, source, needs = '') => {
    const file = `${name.replaceAll('-', '_')}-${version}-py3-none-any.whl`;
    execFileSync('/usr/bin/python3', ['-c', PACK, join(dir, file), name.replaceAll('-', '_'), version, module, source, needs]);
    (index.wheels[name.toLowerCase()] ??= []).push(file);
  };
  const server = http.createServer((request, response) => {
    index.asked.push(request.url);
    const [, place, name] = request.url.split('/');
    if (place === 'simple' && index.wheels[name]) {
      response.setHeader('content-type', 'text/html');
      response.end(index.wheels[name].map((file) => `<a href="/files/${file}">${file}</a>`).join('\n'));
    } else if (place === 'files') {
      response.end(readFileSync(join(dir, name)));
    } else {
      response.statusCode = 404;
      response.end('none');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  index.port = server.address().port;
  return index;
}

// `host` is the name of the registry in the addresses that it gives.
export async function startRegistry(t, { host = 'registry.test' } = {}) {
  const dir = tempDir(t);
  const registry = { asked: [], packages: {} };
  const address = () => `http://${host}:${registry.port}`;
  const keep = (about, tarball) => {
    const { name, version } = about, bytes = readFileSync(tarball);
    const packument = registry.packages[name] ??= { name, 'dist-tags': {}, versions: {}, tars: {} };
    packument['dist-tags'].latest = version;
    packument.versions[version] = { ...about, dist: {
      integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
      shasum: createHash('sha1').update(bytes).digest('hex'),
    } };
    packument.tars[version] = bytes;
  };
  registry.add = (name, version, files, dependencies = {}, more = {}) => {
    const root = join(dir, `${name.replace('/', '+')}-${version}`);
    const about = { name, version, main: 'index.js', dependencies, ...more };
    for (const [file, text] of Object.entries({ 'package.json': JSON.stringify(about), ...files })) {
      mkdirSync(join(root, 'package', file, '..'), { recursive: true });
      writeFileSync(join(root, 'package', file), text);
    }
    execFileSync('tar', ['-czf', `${root}.tgz`, '-C', root, 'package']);
    keep(about, `${root}.tgz`);
  };
  // A real one, as it is installed in that directory.
  registry.addInstalled = (from) => {
    const about = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
    const tarball = join(dir, `${about.name.replace('/', '+')}-${about.version}.tgz`);
    execFileSync('tar', ['-czf', tarball, '-C', from, '--transform', 's,^\\.,package,', '--exclude', './node_modules', '.']);
    keep(about, tarball);
  };
  const server = http.createServer(async (request, response) => {
    const url = decodeURIComponent(request.url.split('?')[0]);
    registry.asked.push(url);
    await registry.gate;
    const [, name, file] = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+)\.tgz)?$/.exec(url) ?? [];
    const packument = registry.packages[name];
    const version = Object.keys(packument?.versions ?? {}).find((each) => file?.endsWith(`-${each}`));
    if (version !== undefined) {
      response.end(packument.tars[version]);
    } else if (packument !== undefined && file === undefined) {
      const { tars, ...told } = packument;
      for (const [each, about] of Object.entries(told.versions))
        about.dist.tarball = `${address()}/${name}/-/${name.split('/').at(-1)}-${each}.tgz`;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(told));
    } else {
      response.statusCode = 404;
      response.end('{"error":"Not found"}');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  registry.port = server.address().port;
  return registry;
}
