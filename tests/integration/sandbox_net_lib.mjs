// A server whose sandboxes have a small outside world: hosts on loopback, a name server, a key.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts, nameServer, server as web, spellings } from './net.mjs';

export const timeout = 600_000;

function echo(got, response) {
  response.setHeader('x-echo', got.headers['x-api-key'] ?? '');
  response.end(`you sent ${got.headers['x-api-key']} ${got.headers.authorization}\n`);
}

// { skip } says why nothing can be tested here. `config` gets the stage and gives more lines.
export async function stage(t, { answer = echo, config = () => '', env = {}, names = {}, tiers = ['jail', 'isolate'] } = {}) {
  if (!OPENSSL || !existsSync('/usr/bin/curl')) return { skip: 'openssl or curl is not installed' };
  const dir = tempDir(t), certs = makeCerts(dir, ['ok.test', 'ok2.test', 'www.ok.test']);
  const value = 'cnry_' + randomBytes(16).toString('hex');
  const tls = await web(t, answer, certs), other = await web(t, answer, certs);
  const plain = await web(t, (got, response) => response.end(`plain ${got.path}\n`));
  const evil = await web(t, (got, response) => response.end('evil\n'));
  const dns = await nameServer(t, { 'ok.test': '127.0.0.1', 'ok2.test': '127.0.0.1', 'evil.test': '127.0.0.1', ...names });
  // Not below `dir`, which goes first: a server whose data has gone cannot stop in order.
  const data = mkdtempSync(join(tmpdir(), 'sandglass-it-'));
  const it = { dir, data, value, hidden: spellings(value), tls, other, plain, evil, dns, certs,
    at: `ok.test:${tls.port}`, url: `https://ok.test:${tls.port}`, plainAt: `ok.test:${plain.port}`,
    key: (more = {}) => ({ name: 'KEY', value, hosts: [`ok.test:${tls.port}`], ...more }) };
  const file = join(dir, 'config.toml');
  writeFileSync(file, `[server]\nlog_level = "debug"\n[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\n`
    + `private = ["ok.test=127.0.0.1:${tls.port}", "ok.test=127.0.0.1:${plain.port}", "ok2.test=127.0.0.1:${other.port}", "ok2.test=127.0.0.1:${tls.port}"]\n`
    + config(it));
  it.config = file;
  it.start = async () => {
    it.server = await serve(t, { dir: data, args: ['--config', file], env: { ...process.env, ...env } });
    return it.server;
  };
  await it.start();
  it.call = async (method, path, body) => {
    const answered = await it.server.get(path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } }) });
    const text = await answered.text();
    let json = {};
    try { json = JSON.parse(text); } catch { /* a stream, or nothing */ }
    return { ...json, status: answered.status, text };
  };
  it.create = (body) => it.call('POST', '/v1/sandboxes', body);
  it.patch = (id, body) => it.call('PATCH', `/v1/sandboxes/${id}`, body);
  it.sh = async (id, command, more = {}) => it.call('POST', `/v1/sandboxes/${id}/commands`, { command, ...more });
  it.run = async (id, code, more = {}) => it.call('POST', `/v1/sandboxes/${id}/run_code`, { code, ...more });
  it.events = async () => {
    const controller = new AbortController();
    const answered = await it.server.get('/v1/events?after=0', { headers: { accept: 'application/x-ndjson' }, signal: controller.signal });
    const seen = [];
    (async () => {
      let text = '';
      try {
        for await (const chunk of answered.body) {
          text += Buffer.from(chunk).toString();
          for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1))
            if (text.slice(0, end).trim()) seen.push(JSON.parse(text.slice(0, end)));
        }
      } catch { /* aborted */ }
    })();
    t.after(() => controller.abort());
    return seen;
  };
  for (const tier of tiers) {
    const control = await it.create({ tier, network: `allow ${it.plainAt}` });
    if (control.status !== 201) return { skip: `no ${tier} with a network here: ${control.text.trim()}` };
    await it.call('DELETE', `/v1/sandboxes/${control.id}`);
  }
  return it;
}
