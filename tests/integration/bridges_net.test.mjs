// Where code in an isolate can get by api.fetch and fetch: names, addresses, certificates and
// redirects, against servers and a name server of the test's own on loopback.
import assert from 'node:assert';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { run as start, tempDir } from './lib.mjs';
import { makeCerts, nameServer, OPENSSL, server } from './net.mjs';

const skip = OPENSSL === undefined && 'openssl is not installed';

// ok.test and plain.test may be reached, evil.test is there too and may not; PRIV is any of them by
// another road.
async function setup(t, table = {}) {
    const dir = tempDir(t), certs = makeCerts(dir, ['ok.test', 'evil.test']);
    const answer = (got, response) => {
        if (got.path === '/to') response.writeHead(Number(got.query.get('status') ?? 302), { location: got.query.get('url') });
        response.end(JSON.stringify({ host: got.headers.host, path: got.path }));
    };
    const ok = await server(t, answer, certs), evil = await server(t, answer, certs), plain = await server(t, answer);
    const names = await nameServer(t, { 'ok.test': '127.0.0.1', 'evil.test': '127.0.0.1', 'plain.test': '127.0.0.1', 'wrong.test': '127.0.0.1', ...table });
    const allowed = [`ok.test:${ok.port}`, `plain.test:${plain.port}`, `wrong.test:${ok.port}`];
    const write = (ca) => {
        const file = join(dir, `config${ca ? '' : '-strict'}.toml`);
        const entries = allowed.map((each) => `"${each.split(':')[0]}=127.0.0.1:${each.split(':')[1]}"`);
        writeFileSync(file, `[egress]\ndns_servers = ["${names.address}"]\nprivate = [${entries.join(', ')}]\n${ca ? `ca_file = "${certs.ca}"\n` : ''}`);
        return file;
    };
    const files = { known: write(true), strict: write(false) };
    const hosts = [...allowed, ...Object.keys(table)].flatMap((host) => ['--allow-host', host]);
    const it = {
        ok, evil, plain, names, base: `https://ok.test:${ok.port}`,
        async run(code, config = files.known) {
            const { stdout, stderr } = await start(['run', '--config', config, '--json', '--timeout', '120000', ...hosts, '-e', code]);
            assert.strictEqual(stderr, '');
            return JSON.parse(stdout);
        },
        strict: (code) => it.run(code, files.strict),
        // What became of each URL: the body's path, or the message of the error.
        async each(urls, options = {}, call = 'api.fetch') {
            const { result, error } = await it.run(`const got = [];
                for (const url of ${JSON.stringify(urls)}) {
                    try { const answer = await ${call}(url, ${JSON.stringify(options)}); got.push(typeof answer.body === 'string' ? answer.body : await answer.text()); }
                    catch (e) { got.push(e.name + ': ' + e.message); }
                }
                got`);
            assert.strictEqual(error, null);
            return result;
        },
    };
    return it;
}
const refusedAll = (results, urls) => results.forEach((text, i) => assert.match(text, /^(Type)?Error: api\.fetch: /, `${urls[i]} gave ${text}`));

test('a host of egress.private is reached there, its certificate checked, and the answer comes', { skip }, async (t) => {
    const it = await setup(t);
    const { result } = await it.run(`const r = await fetch("${it.base}/hello"); [r.status, (await r.json()).path, r.url]`);
    assert.deepStrictEqual(result, [200, '/hello', `${it.base}/hello`]);
    assert.ok(!it.names.asked.includes('ok.test')); // the entry has the address
    const wrong = await it.run(`await api.fetch("https://wrong.test:${it.ok.port}/")`);
    assert.match(wrong.error.message, /certificate/);
    const unknown = await it.strict(`await api.fetch("${it.base}/")`);
    assert.match(unknown.error.message, /certificate/);
    assert.strictEqual(it.ok.seen.length, 1);
});

test('NET-03: one host, one spelling', { skip }, async (t) => {
    const it = await setup(t), p = it.ok.port;
    const same = await it.each([`https://OK.TEST:${p}/a`, `https://ok.test.:${p}/b`]);
    assert.deepStrictEqual(same.map((text) => JSON.parse(text).path), ['/a', '/b']);
    const odd = ['ok.test\0.evil.test', 'evil.test\0.ok.test', 'ok.test.evil.test', 'evilok.test', 'ok.test..', '.ok.test', '[ok.test]', 'ok.test%00', 'ok%2etest',
        'user@ok.test@evil.test', 'ok.test:443@evil.test', 'ok.test#@evil.test', 'ok.test\\@evil.test', 'ok.test\r\nHost: evil.test', 'ok.test\t', ' ok.test',
        'ok\u3002test', '\u043ek.test', 'ok\uff0etest', 'a'.repeat(300), ''].map((host) => `https://${host}:${p}/`);
    refusedAll(await it.each(odd), odd);
    assert.strictEqual(it.ok.seen.length, 2);
    assert.strictEqual(it.evil.seen.length, 0);
});

test('NET-04, NET-05, NET-12: no road to an address that is not public', { skip }, async (t) => {
    const inner = ['169.254.169.254', 'fd00:ec2::254', '10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1', '127.0.0.1', '0.0.0.0', '198.18.0.1',
        '224.0.0.1', '240.0.0.1', 'fe80::1', 'fc00::1', 'ff02::1', '::1', '::ffff:7f00:1'];
    const table = Object.fromEntries(inner.map((address, i) => [`n${i}.test`, address]));
    const it = await setup(t, table), p = it.plain.port;
    const names = Object.keys(table).map((name) => `http://${name}/`);
    for (const text of await it.each(names)) assert.match(text, /not public/);
    const literals = [...inner, '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.0.1', '0', 'localhost', '[::]', '[::ffff:7f00:1]', '[0:0:0:0:0:0:0:1]', '[::1%lo]']
        .map((host) => `http://${host.includes(':') && host[0] !== '[' ? `[${host}]` : host}:${p}/`);
    refusedAll(await it.each(literals), literals);
    assert.deepStrictEqual([it.ok, it.evil, it.plain].map((each) => each.seen.length), [0, 0, 0]);
});

test('NET-06: every address is judged again each time', { skip }, async (t) => {
    let asked = 0;
    const it = await setup(t, { 'mixed.test': ['93.184.216.34', '127.0.0.1'], 'six.test': ['93.184.216.34', '::1'], 'none.test': [],
        'turns.test': (type) => type !== 1 ? [] : asked++ === 0 ? '10.1.1.1' : '127.0.0.1' });
    for (const text of await it.each(['http://mixed.test/', 'http://six.test/', 'http://turns.test/', 'http://turns.test/'])) assert.match(text, /not public/);
    refusedAll(await it.each(['http://none.test/']), ['none']);
    assert.strictEqual(asked, 2);
});

test('NET-07: a redirect goes where a request could go', { skip }, async (t) => {
    const it = await setup(t), e = it.evil.port, base = it.base;
    const to = (url, status = 302) => `${base}/to?status=${status}&url=${encodeURIComponent(url)}`;
    for (const status of [301, 302, 303, 307, 308]) {
        const fine = await it.each([to(`${base}/there`, status)], {}, 'fetch');
        assert.strictEqual(JSON.parse(fine[0]).path, '/there');
    }
    const away = [`https://evil.test:${e}/`, 'http://169.254.169.254/', 'file:///etc/passwd', `//evil.test:${e}/`, `http://plain.test:${it.plain.port}/`,
        `https://ok.test@evil.test:${e}/`, 'gopher://ok.test/'].map((url) => to(url));
    for (const text of await it.each(away, {}, 'fetch')) assert.match(text, /^TypeError: /);
    assert.deepStrictEqual([it.evil.seen.length, it.plain.seen.length], [0, 0]);
    // Five hops and no more.
    it.ok.seen.length = 0;
    const hops = (count) => count === 0 ? '/end' : `/to?url=${encodeURIComponent(hops(count - 1))}`;
    const five = await it.each([base + hops(5)], {}, 'fetch'), six = await it.each([base + hops(6)], {}, 'fetch');
    assert.strictEqual(JSON.parse(five[0]).path, '/end');
    assert.match(six[0], /^TypeError: .*redirect/);
    assert.strictEqual(it.ok.seen.length, 6 + 6);
});

test('NET-08, NET-11: schemes, ports, methods and headers that are not for code to choose', { skip }, async (t) => {
    const it = await setup(t);
    const urls = [...['file', 'ftp', 'gopher', 'dict', 'data', 'unix', 'ldap', 'jar', 'javascript'].map((scheme) => `${scheme}://ok.test/`),
        ...[22, 25, 6379, 0, 65536, -1, '443x'].map((port) => `https://ok.test:${port}/`), `${it.base}/a b\r\nX: y`];
    refusedAll(await it.each(urls), urls);
    const bad = [{ method: 'GET / HTTP/1.1\r\nX:' }, { method: 'CONNECT' }, { method: '' },
        ...[['a\r\nb', 'c'], ['a', 'b\r\nc: d'], ['a', 'b\0'], ['a:b', 'c'], ['', 'c'], ['Host', 'evil.test'], ['Transfer-Encoding', 'chunked'], ['Content-Length', '5'],
            ['Connection', 'close'], ['Proxy-Authorization', 'x'], ['Upgrade', 'h2c'], ['TE', 'trailers'], ['Expect', '100-continue'],
            ['Trailer', 'x']].map(([name, value]) => ({ headers: { [name]: value } }))];
    for (const options of bad) refusedAll(await it.each([`${it.base}/`], options), [JSON.stringify(options)]);
    assert.strictEqual(it.ok.seen.length, 0);
});

// A server that answers with these bytes.
async function raw(t, bytes) {
    const made = createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => { if (typeof bytes === 'function') bytes(socket); else socket.end(bytes); });
    });
    made.listen(0, '127.0.0.1');
    await once(made, 'listening');
    t.after(() => made.close());
    return made.address().port;
}

test('NET-10: answers that are no answers end within limits', { skip }, async (t) => {
    const endless = (text) => (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const more = () => { while (!socket.destroyed && socket.write(text)); };
        socket.on('drain', more);
        more();
    };
    const cases = {
        headers: endless('x-a: ' + 'b'.repeat(1000) + '\r\n'),
        many: (socket) => socket.end('HTTP/1.1 200 OK\r\n' + 'x: y\r\n'.repeat(20000) + '\r\n'),
        lengths: 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello',
        chunk: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\nx',
        interim: endless('\r\nHTTP/1.1 100 Continue\r\n'),
        body: (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n'); endless('x'.repeat(65536))(socket); },
        garbage: '\x15\x03\x01 this is no HTTP',
    };
    const dir = tempDir(t), config = join(dir, 'config.toml'), hosts = [], urls = [];
    for (const bytes of Object.values(cases)) {
        const port = await raw(t, bytes);
        hosts.push(`127.0.0.1:${port}`);
        urls.push(`http://127.0.0.1:${port}/`);
    }
    writeFileSync(config, `[egress]\nprivate = [${hosts.map((host) => `"127.0.0.1=${host}"`).join(', ')}]\n`);
    const { stdout } = await start(['run', '--config', config, '--json', '--timeout', '120000', '--memory', '64', ...hosts.flatMap((host) => ['--allow-host', host]), '-e',
        `const all = await Promise.allSettled(${JSON.stringify(urls)}.map((url) => api.fetch(url, { timeoutMs: 3000 }))); all.map((each) => each.status)`]);
    assert.deepStrictEqual(JSON.parse(stdout).result, Object.keys(cases).map(() => 'rejected'));
});
