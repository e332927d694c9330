// A server as tests of snapshots ask it; null, and the test skipped, where there are no jails.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './lib.mjs';

export async function withSnapshots(t, server) {
  server.ask = async (method, path, body, type = 'application/json') => {
    const answer = await server.get(path, { method, body: body && (type === 'application/json' ? JSON.stringify(body) : body),
      headers: { 'content-type': type } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.sh = async (id, command) => (await server.ask('POST', `/v1/sandboxes/${id}/commands`, { command })).stdout;
  server.left = async () => ({ layers: readdirSync(join(server.dir, 'layers')).filter((name) => name !== '.trash').length,
    sandboxes: (await server.ask('GET', '/v1/sandboxes')).sandboxes.length,
    snapshots: (await server.ask('GET', '/v1/snapshots')).snapshots.length });
  server.cli = (...args) => run(args,
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  const probe = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
  if (probe.status !== 201) {
    t.skip(`no jails here: ${probe.text}`);
    return null;
  }
  await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
  return server;
}
