// Requests for a person's decision: their life, who may decide, what survives, and every surface.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const { Client } = await import(pathToFileURL(join(process.env.SG_SDK, 'dist/index.js')));

const MEMORY = '[sandbox]\nprovider = "memory"\n';

// A server, and callers by the scopes of their token.
async function setup(t, { toml = '', dir = tempDir(t), env } = {}) {
  const home = tempDir(t), config = join(home, 'config.toml');
  writeFileSync(config, MEMORY + toml);
  const server = await serve(t, { dir, args: ['--config', config], ...(env ? { env: { ...process.env, ...env } } : {}) });
  const caller = (token) => {
    const ask = async (method, path, body) => {
      const answer = await fetch(server.url + path, { method, headers: { authorization: `Bearer ${token}`,
        ...(body ? { 'content-type': 'application/json' } : {}) }, ...(body ? { body: JSON.stringify(body) } : {}) });
      const text = await answer.text();
      return { code: answer.status, text, ...(text ? JSON.parse(text) : {}) };
    };
    return { ask, token,
      cli: (...args) => run(args, { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: token, HOME: home, XDG_CONFIG_HOME: home } }) };
  };
  const root = caller(server.token);
  const token = async (name, scopes, more = {}) => {
    const made = await root.ask('POST', '/v1/tokens', { name, scopes, ...more });
    assert.equal(made.code, 201, made.text);
    return { ...caller(made.token), id: made.id };
  };
  const stop = async (signal) => { server.child.kill(signal); await server.exit; };
  return { server, dir, root, token, stop, caller };
}

const wish = (subject, more = {}) => ({ kind: 'custom', subject, title: `Deploy ${subject}`, detail: { image: 'app:42' }, ...more });
const yes = (approval, more = {}) => ({ approved: true, subject: approval.subject, digest: approval.digest, ...more });
const no = (approval, more = {}) => ({ approved: false, subject: approval.subject, ...more });

// The kinds and ids of all stored events of approvals.
async function events(server, id) {
  const answer = await server.get('/v1/events?after=0', { headers: { accept: 'application/x-ndjson' } });
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let text = '';
  await server.get('/v1/approvals', { method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ kind: 'custom', subject: `mark-${Math.random()}`, title: 'mark' }) });
  while (!/"detail":"mark"/.test(text.split('\n').slice(0, -1).at(-1) ?? '')) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter(({ data }) => data.id === id)
    .map(({ event, data }) => `${event} ${data.state}`);
}

test('the life of an approval: requested, approved, used once; or rejected with a note', T, async (t) => {
  const { server, root, token } = await setup(t, { toml: '[approvals]\nexpire_hours = 2\n' });
  const program = await token('ci', ['read', 'run']), alice = await token('alice', ['read', 'approve']);
  const asked = await program.ask('POST', '/v1/approvals', wish('deploy-1'));
  assert.equal(asked.code, 201, asked.text);
  assert.deepEqual([asked.status, asked.kind, asked.subject, asked.requestedBy, asked.requestedByToken, asked.decidedBy, asked.note],
    ['pending', 'custom', 'deploy-1', 'ci', program.id, null, null]);
  assert.deepEqual(asked.detail, { image: 'app:42' });
  assert.match(asked.digest, /^[0-9a-f]{64}$/);
  assert.equal(Date.parse(asked.expiresAt) - Date.parse(asked.requestedAt), 2 * 3600000, 'approvals.expire_hours');
  assert.equal((await program.ask('POST', '/v1/approvals', wish('deploy-1'))).id, asked.id, 'asked once');
  const pending = async () => (await alice.ask('GET', '/v1/approvals?status=pending')).approvals.map(({ subject }) => subject);
  assert.deepEqual(await pending(), ['deploy-1']);
  assert.equal((await program.ask('POST', `/v1/approvals/${asked.id}/use`, {})).code, 409, 'not decided yet');

  // The decision names what was seen.
  for (const body of [yes(asked, { subject: 'deploy-2' }), yes(asked, { digest: 'f00' })]) {
    const refused = await alice.ask('POST', `/v1/approvals/${asked.id}`, body);
    assert.deepEqual([refused.code, refused.error.code], [409, 'conflict'], refused.text);
    assert.match(refused.error.message, /look at it again/);
  }
  assert.equal((await alice.ask('POST', `/v1/approvals/deploy-1`, yes(asked))).code, 404, 'only by id');
  const done = await alice.ask('POST', `/v1/approvals/${asked.id}`, yes(asked, { note: 'go' }));
  assert.deepEqual([done.code, done.status, done.decidedBy, done.decidedByToken, done.note, done.endedAt],
    [200, 'approved', 'alice', alice.id, 'go', null], done.text);
  assert.ok(Date.parse(done.decidedAt) >= Date.parse(done.requestedAt));
  assert.equal((await alice.ask('POST', `/v1/approvals/${asked.id}/use`, {})).code, 403, 'the scope run');
  assert.equal((await program.ask('POST', `/v1/approvals/${asked.id}/use`, { digest: 'other' })).code, 409);
  const uses = await Promise.all(Array.from({ length: 6 }, () => program.ask('POST', `/v1/approvals/${asked.id}/use`, { digest: asked.digest })));
  assert.deepEqual(uses.map(({ code }) => code).sort(), [200, 409, 409, 409, 409, 409], 'used once');
  assert.equal((await program.ask('GET', '/v1/approvals/deploy-1')).status, 'used');
  assert.deepEqual(await events(server, asked.id), ['approval.requested pending', 'approval.decided approved', 'approval.used used']);

  // Other content is another approval; the earlier one is void.
  const first = await program.ask('POST', '/v1/approvals', wish('deploy-3'));
  const second = await program.ask('POST', '/v1/approvals', wish('deploy-3', { detail: { image: 'app:43' } }));
  assert.notEqual(first.id, second.id);
  assert.notEqual(first.digest, second.digest);
  const late = await alice.ask('POST', `/v1/approvals/${first.id}`, yes(first));
  assert.equal(late.code, 409);
  assert.match(late.error.message, /is void: replaced by a newer request/);
  const rejected = await alice.ask('POST', `/v1/approvals/${second.id}`, no(second, { note: 'not on a\nFriday ☂' }));
  assert.deepEqual([rejected.code, rejected.status], [200, 'rejected']);
  const read = await program.ask('GET', `/v1/approvals/${second.id}`);
  assert.deepEqual([read.status, read.note, read.decidedBy], ['rejected', 'not on a\nFriday ☂', 'alice']);

  const third = await program.ask('POST', '/v1/approvals', wish('deploy-4'));
  const withdrawn = await program.ask('DELETE', `/v1/approvals/${third.id}`);
  assert.deepEqual([withdrawn.code, withdrawn.status, withdrawn.reason], [200, 'void', 'withdrawn by the requester']);
  assert.equal((await program.ask('DELETE', `/v1/approvals/${third.id}`)).code, 409);
  assert.deepEqual(await events(server, third.id), ['approval.requested pending', 'approval.void void']);

  // Nobody writes lines for the person that look like others.
  for (const title of ['a\nb', '\u001b[2J', 'to \u202eniam', 'x'.repeat(301)])
    assert.equal((await program.ask('POST', '/v1/approvals', wish('s', { title }))).code, 400, JSON.stringify(title));
  assert.equal((await program.ask('POST', '/v1/approvals', wish('s', { kind: 'git_push' }))).code, 400);
  assert.equal((await program.ask('POST', '/v1/approvals', wish('s', { detail: { x: 'x'.repeat(20000) } }))).code, 413);
  assert.equal((await root.ask('GET', '/v1/approvals?status=maybe')).code, 400);
});

test('of several decisions at once exactly one wins, the others say whose and when', T, async (t) => {
  const { root, token } = await setup(t);
  const people = await Promise.all(['alice', 'bob', 'carol'].map((name) => token(name, ['approve'])));
  for (let round = 0; round < 10; round++) {
    const asked = await root.ask('POST', '/v1/approvals', wish(`race-${round}`));
    const answers = await Promise.all(people.map((person, i) =>
      person.ask('POST', `/v1/approvals/${asked.id}`, (i + round) % 2 ? yes(asked) : no(asked))));
    const won = answers.filter(({ code }) => code === 200);
    assert.equal(won.length, 1, answers.map(({ text }) => text).join('\n'));
    for (const lost of answers.filter(({ code }) => code !== 200)) {
      assert.deepEqual([lost.code, lost.error.code], [409, 'conflict']);
      assert.ok(lost.error.message.includes(`was ${won[0].status} by '${won[0].decidedBy}' at ${won[0].decidedAt}`), lost.text);
    }
    assert.equal((await root.ask('GET', `/v1/approvals/${asked.id}`)).status, won[0].status);
  }
});

test('every other scope does not approve, and does not lead to approve', T, async (t) => {
  const { server, root, token, caller } = await setup(t);
  const admin = await token('admin', ['read', 'run', 'files', 'admin']);
  const asked = await admin.ask('POST', '/v1/approvals', wish('own'));
  const refused = await admin.ask('POST', `/v1/approvals/${asked.id}`, yes(asked));
  assert.deepEqual([refused.code, refused.error.code], [403, 'forbidden']);
  assert.match(refused.error.message, /lacks the scope 'approve'/);
  // It cannot make a token that can,
  for (const scopes of [['approve'], ['read', 'run', 'files', 'admin', 'approve']]) {
    const made = await admin.ask('POST', '/v1/tokens', { name: 'more', scopes });
    assert.deepEqual([made.code, made.error.code, made.error.path], [403, 'forbidden', 'scopes'], made.text);
  }
  const other = await admin.ask('POST', '/v1/tokens', { name: 'less', scopes: ['read', 'admin'] });
  assert.equal(other.code, 201);
  assert.equal((await caller(other.token).ask('POST', '/v1/tokens', { scopes: ['approve'] })).code, 403);
  // cannot widen itself,
  for (const method of ['PUT', 'PATCH', 'POST'])
    assert.ok([404, 405].includes((await admin.ask(method, `/v1/tokens/${admin.id}`, { scopes: ['approve'] })).code), method);
  // and cannot read the first token from the server's own files.
  for (const directory of [server.dir, '/']) {
    assert.equal((await admin.ask('POST', '/v1/snapshots', { directory })).code, 403);
    assert.equal((await admin.ask('POST', '/v1/docs', { directory })).code, 403);
  }
  assert.equal((await root.ask('GET', `/v1/approvals/${asked.id}`)).status, 'pending');
  assert.ok(!(await admin.ask('GET', '/v1/tokens')).tokens.some(({ scopes }) => scopes.includes('approve')));
  // The first token has every scope; it, and a token that has approve with admin, may pass it on.
  const person = await token('person', ['admin', 'approve']);
  const given = await person.ask('POST', '/v1/tokens', { scopes: ['approve'] });
  assert.equal(given.code, 201, given.text);
  const done = await caller(given.token).ask('POST', `/v1/approvals/${asked.id}`, yes(asked));
  assert.deepEqual([done.status, done.decidedBy, done.decidedByToken], ['approved', given.id, given.id]);
  // Neither default of the command line has it.
  const made = (await root.cli('token', 'create', '--json')).stdout;
  assert.deepEqual(JSON.parse(made).scopes, ['read', 'run', 'files']);
});

test('a tenant sees only its own', T, async (t) => {
  const { root, token } = await setup(t);
  const mine = await root.ask('POST', '/v1/approvals', wish('mine'));
  const other = await token('eve', ['read', 'run', 'admin', 'approve'], { tenant: 'other' });
  assert.deepEqual((await other.ask('GET', '/v1/approvals')).approvals, []);
  const strip = ({ code, error }) => [code, error.code, error.message.replaceAll(mine.id, 'X').replaceAll('a'.repeat(26), 'X')];
  for (const [method, path, body] of [['GET', ''], ['POST', '', yes(mine)], ['POST', '/use', {}], ['DELETE', '']]) {
    const real = await other.ask(method, `/v1/approvals/${mine.id}${path}`, body);
    assert.equal(real.code, 404, real.text);
    assert.deepEqual(strip(real), strip(await other.ask(method, `/v1/approvals/${'a'.repeat(26)}${path}`, body)));
  }
  assert.equal((await other.ask('GET', '/v1/approvals/mine')).code, 404);
  const same = await other.ask('POST', '/v1/approvals', wish('mine'));
  assert.notEqual(same.id, mine.id);
  assert.equal((await root.ask('GET', `/v1/approvals/${mine.id}`)).status, 'pending', 'not void by a request of another tenant');
});

test('expiry: while it runs, while it is down, and after approval; limits.approvals', T, async (t) => {
  const first = await setup(t, { toml: '[limits]\napprovals = 3\n' });
  const { root, server } = first;
  const soon = await root.ask('POST', '/v1/approvals', wish('soon', { expiresSeconds: 1 }));
  assert.equal(Date.parse(soon.expiresAt) - Date.parse(soon.requestedAt), 1000);
  await until(async () => (await root.ask('GET', `/v1/approvals/${soon.id}`)).status === 'expired');
  const late = await root.ask('POST', `/v1/approvals/${soon.id}`, yes(soon));
  assert.equal(late.code, 409);
  assert.ok(late.error.message.includes(`expired at ${soon.expiresAt}`), late.text);
  assert.deepEqual(await events(server, soon.id), ['approval.requested pending', 'approval.expired expired']);
  assert.equal((await root.ask('POST', '/v1/approvals', wish('s', { expiresSeconds: 31 * 86400 }))).code, 400);

  const down = await root.ask('POST', '/v1/approvals', wish('down', { expiresSeconds: 3 }));
  const kept = await root.ask('POST', '/v1/approvals', wish('kept', { expiresSeconds: 30 * 86400 }));
  const full = await root.ask('POST', '/v1/approvals', wish('too many'));
  assert.deepEqual([full.code, full.error.code], [429, 'limit_reached'], 'the mark, down and kept are three');
  await first.stop('SIGTERM');
  await sleep(Math.max(0, Date.parse(down.expiresAt) - Date.now()) + 50);
  const second = await setup(t, { dir: first.dir });
  await until(async () => (await second.root.ask('GET', `/v1/approvals/${down.id}`)).status === 'expired');
  const still = await second.root.ask('GET', `/v1/approvals/${kept.id}`);
  assert.deepEqual([still.status, still.expiresAt, still.digest], ['pending', kept.expiresAt, kept.digest]);
  // Approved and not used in time.
  const unused = await second.root.ask('POST', '/v1/approvals', wish('unused', { expiresSeconds: 5 }));
  const done = await second.root.ask('POST', `/v1/approvals/${unused.id}`, yes(unused));
  if (done.code === 200) { // else the machine was too slow to decide in time
    await until(async () => (await second.root.ask('GET', `/v1/approvals/${unused.id}`)).status === 'expired');
    assert.equal((await second.root.ask('POST', `/v1/approvals/${unused.id}/use`, {})).code, 409);
  }
});

test('a decision survives kill -9, and a kill between its record and its effect', T, async (t) => {
  const first = await setup(t);
  const alice = await first.token('alice', ['read', 'run', 'approve']);
  const one = await alice.ask('POST', '/v1/approvals', wish('one'));
  const two = await alice.ask('POST', '/v1/approvals', wish('two'));
  assert.equal((await alice.ask('POST', `/v1/approvals/${one.id}`, yes(one, { note: 'yes' }))).code, 200);
  await first.stop('SIGKILL');

  const canCrash = readFileSync(BIN).includes('SG_CRASH_AT');
  const second = await setup(t, { dir: first.dir, ...(canCrash ? { env: { SG_CRASH_AT: 'engine.approval.recorded' } } : {}) });
  const again = second.caller(alice.token);
  const read = await again.ask('GET', `/v1/approvals/${one.id}`);
  assert.deepEqual([read.status, read.note, read.decidedBy, read.decidedByToken], ['approved', 'yes', 'alice', alice.id]);
  const cut = again.ask('POST', `/v1/approvals/${two.id}`, no(two, { note: 'no' })).catch(() => undefined);
  if (canCrash) {
    assert.equal(await cut, undefined, 'no answer');
    assert.equal((await second.server.exit).signal, 'SIGKILL');
  } else {
    await cut;
    await second.stop('SIGKILL');
  }
  const third = await setup(t, { dir: first.dir }), last = third.caller(alice.token);
  const decided = await last.ask('GET', `/v1/approvals/${two.id}`);
  assert.deepEqual([decided.status, decided.note, decided.decidedBy], ['rejected', 'no', 'alice']);
  await until(async () => (await events(third.server, two.id)).includes('approval.decided rejected'));
  assert.equal((await last.ask('POST', `/v1/approvals/${two.id}`, yes(two))).code, 409, 'decided');
  assert.equal((await last.ask('POST', `/v1/approvals/${one.id}/use`, {})).code, 200);
  await third.stop('SIGKILL');
  const fourth = await setup(t, { dir: first.dir });
  assert.equal((await fourth.caller(alice.token).ask('POST', `/v1/approvals/${one.id}/use`, {})).code, 409, 'used once, also across kills');
});

test('the same request with an Idempotency-Key is one approval, also after the decision', T, async (t) => {
  const { server, root } = await setup(t);
  const post = async (key, body) => {
    const answer = await server.get('/v1/approvals', { method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', 'idempotency-key': key } });
    return { code: answer.status, ...(await answer.json()) };
  };
  const asked = await post('k1', wish('key'));
  assert.equal((await root.ask('POST', `/v1/approvals/${asked.id}`, no(asked))).code, 200);
  const again = await post('k1', wish('key'));
  assert.deepEqual([again.id, again.status], [asked.id, 'rejected']);
  assert.equal((await post('k1', wish('another'))).code, 409);
  assert.notEqual((await post('k2', wish('key'))).id, asked.id);
});

test('the command line', T, async (t) => {
  const { root, token } = await setup(t);
  const alice = await token('alice', ['read', 'approve']);
  const asked = await root.ask('POST', '/v1/approvals', wish('deploy 7', { detail: { image: 'app:7\u001b[2J', files: [1, 2] } }));
  const ls = await alice.cli('approvals', 'ls');
  assert.equal(ls.code, 0, ls.stderr);
  assert.match(ls.stdout, /^ID +STATUS +KIND +SUBJECT +BY +EXPIRES +TITLE\n/);
  assert.match(ls.stdout, new RegExp(`^${asked.id} +pending +custom +deploy 7 +first .* Deploy deploy 7$`, 'm'));
  const show = await alice.cli('approvals', 'show', 'deploy 7');
  assert.match(show.stdout, new RegExp(`^digest: +${asked.digest}$`, 'm'));
  assert.match(show.stdout, /^ {2}image: app:7\?\[2J\n {2}files: \[1,2\]$/m, 'nothing that steers a terminal');
  // A subject may stand for a newer request than the one that was looked at.
  const bare = await alice.cli('approvals', 'approve', 'deploy 7');
  assert.equal(bare.code, 2);
  assert.match(bare.stderr, /give the id of the request that you looked at, or its --digest/);
  const wrong = await alice.cli('approvals', 'approve', 'deploy 7', '--digest', 'f00');
  assert.deepEqual([wrong.code, /another digest/.test(wrong.stderr)], [1, true], wrong.stderr);
  const done = await alice.cli('approvals', 'approve', 'deploy 7', '--digest', asked.digest, '--note', 'fine', '--json');
  assert.equal(done.code, 0, done.stderr);
  assert.deepEqual([JSON.parse(done.stdout).status, JSON.parse(done.stdout).note], ['approved', 'fine']);
  const twice = await root.cli('approvals', 'approve', asked.id);
  assert.equal(twice.code, 1);
  assert.match(twice.stderr, /was approved by 'alice' at 20/);
  const next = await root.ask('POST', '/v1/approvals', wish('deploy-8'));
  const rejected = await alice.cli('approvals', 'reject', 'deploy-8', '--note', 'no');
  assert.match(rejected.stdout, /^status: +rejected$/m);
  assert.match(rejected.stdout, /^decided by: +alice$/m);
  assert.equal((await root.ask('GET', `/v1/approvals/${next.id}`)).note, 'no');
  assert.equal((await alice.cli('approvals', 'ls')).stdout.split('\n').length, 2, 'only the head');
  const all = JSON.parse((await alice.cli('approvals', 'ls', '--all', '--json')).stdout);
  assert.deepEqual(all.approvals.map(({ status }) => status), ['approved', 'rejected']);
  assert.match((await alice.cli('approvals', 'ls', '--status', 'rejected')).stdout, /deploy-8/);
  const plain = await token('plain', ['read', 'run']);
  const refused = await plain.cli('approvals', 'approve', asked.id);
  assert.deepEqual([refused.code, /lacks the scope 'approve'/.test(refused.stderr)], [1, true], refused.stderr);
});

test('TypeScript: request, wait, list, decide, and a call-back for each request', T, async (t) => {
  const { server, token } = await setup(t);
  const program = new Client({ url: server.url, token: (await token('ci', ['read', 'run'])).token });
  const person = new Client({ url: server.url, token: (await token('alice', ['read', 'approve'])).token });
  const early = await program.approvals.request({ subject: 'early', title: 'Early' });
  const ending = new AbortController(), asked = [];
  const following = person.approvals.onApproval(async (approval) => {
    asked.push(approval.subject);
    return approval.subject === 'open' ? undefined : { approved: approval.subject !== 'bad', note: `seen ${approval.title}` };
  }, { signal: ending.signal });
  assert.deepEqual(await program.approvals.wait(early.id).then(({ status, note }) => [status, note]), ['approved', 'seen Early']);
  const bad = await program.approvals.request({ subject: 'bad', title: 'Bad', detail: { a: 1 } });
  assert.deepEqual(await program.approvals.wait(bad.id).then(({ status, note }) => [status, note]), ['rejected', 'seen Bad']);
  assert.equal((await program.approvals.use(early)).status, 'used');
  await assert.rejects(program.approvals.use(early), { code: 'conflict' });
  const open = await program.approvals.request({ subject: 'open', title: 'Open' });
  await until(() => asked.includes('open'));
  ending.abort();
  await following;
  assert.deepEqual(asked, ['early', 'bad', 'open']);
  assert.deepEqual((await person.approvals.list({ status: 'pending' })).approvals.map(({ id }) => id), [open.id]);
  await assert.rejects(program.approvals.approve(open), { code: 'forbidden' });
  await assert.rejects(person.approvals.approve({ ...open, digest: 'other' }), { code: 'conflict' });
  assert.equal((await person.approvals.reject(await person.approvals.get('open'), { note: 'later' })).note, 'later');
  const gone = await program.approvals.request({ subject: 'gone', title: 'Gone' });
  assert.equal((await program.approvals.withdraw(gone.id)).status, 'void');
  await assert.rejects(program.approvals.wait(gone.id, { signal: AbortSignal.abort(new Error('enough')) }), /enough/);
  // An error of the call-back ends it, and so does a token that cannot read.
  await program.approvals.request({ subject: 'thrown', title: 'Thrown' });
  await assert.rejects(person.approvals.onApproval(() => { throw new Error('mine'); }), /mine/);
  const blind = new Client({ url: server.url, token: (await token('blind', ['approve'])).token });
  await assert.rejects(blind.approvals.onApproval(() => undefined), { code: 'forbidden' });
});

test('C', T, async (t) => {
  const { server } = await setup(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const child = await run(['say "no"'], { bin: process.env.SG_C_APPROVALS, env });
  assert.equal(child.code, 0, child.stderr);
  const [listed, refused, last] = child.stdout.split('\n');
  assert.deepEqual([listed, refused, last.split(' ')[0]], ['listed 1', 'refused conflict', 'rejected']);
  assert.equal(JSON.parse(last.slice(last.indexOf('{'))).note, 'say "no"');
});
