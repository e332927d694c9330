// A key and the hosts it is for: two TLS servers and a plain one on loopback, a name server, and a configuration that
// leads there. What programs and code do with the key is the tests' own affair.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from './lib.mjs';
import { makeCerts, nameServer, server, spellings } from './net.mjs';

// What servers do, by path.
function answerByPath(got, response) {
  const key = got.headers.authorization ?? got.headers['x-api-key'] ?? '';
  if (got.path === '/echo') {
    response.writeHead(got.query.get('status') ?? 200, { 'x-echo': key, 'content-type': 'text/plain' });
    response.end(`you sent ${key}`);
  } else if (got.path === '/drops') {
    response.writeHead(200);
    const bytes = [...`<${key}>`];
    const next = () => (bytes.length ? response.write(bytes.shift(), next) : response.end());
    next();
  } else if (got.path === '/spelled') {
    response.end(JSON.stringify({ json: JSON.stringify(key), url: encodeURIComponent(key),
      base64: Buffer.from(key).toString('base64'), hex: Buffer.from(key).toString('hex') }));
  } else if (got.path === '/to') {
    response.writeHead(302, { location: got.query.get('url') });
    response.end();
  } else if (got.path === '/slow') {
    response.write('begun');
  } else response.end(`ok ${got.method} ${got.url}`);
}

// The key is bound to ok.test at the first TLS server; every name leads to each of the three.
export async function keyStage(t, { names = ['ok.test', 'ok2.test', 'sub.ok.test'], answer = answerByPath } = {}) {
  const dir = tempDir(t), certs = makeCerts(dir, names);
  const value = 'cnry_' + randomBytes(16).toString('hex'), hidden = spellings(value);
  const tls = await server(t, answer, certs), other = await server(t, answer, certs), plain = await server(t, answer);
  const dns = await nameServer(t, Object.fromEntries(names.map((name) => [name, '127.0.0.1'])));
  const ports = [tls.port, other.port, plain.port], at = `ok.test:${tls.port}`;
  const opened = names.flatMap((name) => ports.map((port) => `"${name}=127.0.0.1:${port}"`));
  const config = join(dir, 'config.toml');
  const settings = `[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\nprivate = [${opened}]\n`;
  writeFileSync(config, settings);
  return {
    dir, certs, value, hidden, tls, other, plain, config, settings, at, all: [tls, other, plain],
    allow: names.flatMap((name) => ports.flatMap((port) => ['--allow-host', `${name}:${port}`])),
    secret: `KEY=env:SG_CANARY@${at}`, env: { ...process.env, SG_CANARY: value },
    // Whatever came out must not have the value, in any spelling.
    check({ stdout, stderr }) {
      for (const spelled of hidden) assert.ok(!(stdout + stderr).includes(spelled), `the value came out: ${stdout}${stderr}`);
    },
  };
}
