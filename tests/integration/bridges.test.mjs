// Bridges from code in an isolate through the gate to servers on this machine, by the real program.
import assert from 'node:assert';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { run as start, tempDir } from './lib.mjs';

const FORECAST = {
    latitude: 52.52, longitude: 13.41, timezone: 'Europe/Berlin',
    current: { time: '2026-01-01T12:00', interval: 900, temperature_2m: 3.5 },
    hourly: { time: ['2026-01-01T00:00'], temperature_2m: [1.5] },
    daily: { time: ['2026-01-01'], sunrise: ['2026-01-01T08:17'], sunset: ['2026-01-01T16:02'] },
};

// What the servers do, by path.
const ROUTES = {
    '/echo': async (request, response) => {
        let body = '';
        for await (const data of request) body += data;
        response.writeHead(201, 'Made', { 'content-type': 'application/json', 'x-seen': 'yes' });
        response.end(JSON.stringify({ method: request.method, type: request.headers['content-type'] ?? null, body }));
    },
    '/bytes': (request, response) => response.end(Buffer.from([0xff, 0, 1])),
    '/empty': (request, response) => { response.statusCode = 204; response.end(); },
    '/big': (request, response) => response.end('x'.repeat(1 << 20)),
    '/slow': () => {},
    '/v1/forecast': (request, response, url) => {
        if (url.searchParams.get('latitude') !== '52.5200') {
            response.statusCode = 400;
            response.end('{"error": true, "reason": "no data for this place"}');
        } else response.end(JSON.stringify(FORECAST));
    },
};

// A server, and a configuration whose operator lets its address be reached.
async function setup(t, { privately = true } = {}) {
    const seen = [];
    const server = http.createServer((request, response) => {
        const url = new URL(request.url, 'http://host');
        seen.push(request.method + ' ' + url.pathname);
        if (url.pathname === '/to') {
            response.writeHead(302, { location: url.searchParams.get('url') });
            response.end();
        } else (ROUTES[url.pathname] ?? ROUTES['/empty'])(request, response, url);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => { server.closeAllConnections(); server.close(); });
    const host = `127.0.0.1:${server.address().port}`;
    const config = join(tempDir(t), 'config.toml');
    writeFileSync(config, `[egress]\nprivate = [${privately ? `"127.0.0.1=${host}"` : ''}]\n[bridges]\nweather_url = "http://${host}"\n`);
    return {
        seen, host, url: `http://${host}`,
        close: () => new Promise((done) => server.close(done)),
        // The answer of --json, with the exit code.
        async json(code, ...args) {
            const { code: exit, stdout, stderr } = await start(['run', '--config', config, '--json', '-e', code, ...args]);
            assert.strictEqual(stderr, '');
            return { exit, ...JSON.parse(stdout) };
        },
        plain: (code, ...args) => start(['run', '--config', config, '-e', code, ...args]),
    };
}

test('without --allow-host nothing is reached, and the refusal says how', async (t) => {
    const it = await setup(t);
    for (const call of ['api.fetch', 'fetch']) {
        const { exit, error } = await it.json(`1;\nawait ${call}("${it.url}/echo")`);
        assert.strictEqual(exit, 1);
        assert.match(error.message, new RegExp(`blocked ${it.host}: .*--allow-host`));
        assert.match(error.stack, /\n {4}at script\.ts:2:/);
        assert.doesNotMatch(error.stack, /native/);
    }
    assert.deepStrictEqual(it.seen, []);
});

test('an allowed host opens only itself: not another port, not a private address', async (t) => {
    const it = await setup(t), shut = await setup(t, { privately: false });
    const other = await it.json(`await api.fetch("${it.url}/echo")`, '--allow-host', '127.0.0.1:1');
    assert.match(other.error.message, /blocked 127\.0\.0\.1:\d+: .*other ports.*--allow-host/);
    // The operator's entry counts only for hosts that were named.
    const unnamed = await it.json(`await api.fetch("${it.url}/echo")`, '--allow-host', 'example.com');
    assert.match(unnamed.error.message, /does not name this host.*--allow-host/);
    const inner = await shut.json(`await api.fetch("${shut.url}/echo")`, '--allow-host', shut.host);
    assert.match(inner.error.message, /not public/);
    assert.strictEqual(inner.error.name, 'Error');
    assert.deepStrictEqual([...it.seen, ...shut.seen], []);
});

test('api.fetch gives status, headers and body', async (t) => {
    const it = await setup(t);
    const { exit, result } = await it.json(`await api.fetch("${it.url}/echo", { method: 'post', headers: { 'Content-Type': 'text/x' }, body: 'h\\u00e9' })`,
        '--allow-host', it.host);
    assert.strictEqual(exit, 0);
    assert.strictEqual(result.status, 201);
    assert.strictEqual(result.statusText, 'Made');
    assert.strictEqual(result.headers['x-seen'], 'yes');
    assert.deepStrictEqual(JSON.parse(result.body), { method: 'POST', type: 'text/x', body: 'h\u00e9' });
    assert.strictEqual(result.url, it.url + '/echo');
});

test('fetch gives a Response with its methods', async (t) => {
    const it = await setup(t);
    const { exit, result, error } = await it.json(`
        const made = await fetch("${it.url}/echo", { method: 'POST', body: new URLSearchParams({ a: '1' }) });
        const copy = made.clone();
        const bytes = await (await fetch(new URL("${it.url}/bytes"))).bytes();
        const empty = await fetch(new Request("${it.url}/empty"));
        let twice;
        const data = await made.json();
        try { await made.text(); } catch (e) { twice = e.name; }
        ({ ok: made.ok, status: made.status, text: made.statusText, seen: made.headers.get('X-Seen'), has: made.headers.has('nothing'),
           data, copied: (await copy.text()).length > 0, bytes: [...bytes], empty: [empty.status, await empty.text()], twice,
           isResponse: made instanceof Response, url: made.url })`, '--allow-host', it.host);
    assert.strictEqual(error, null);
    assert.strictEqual(exit, 0);
    assert.deepStrictEqual(result, {
        ok: true, status: 201, text: 'Made', seen: 'yes', has: false,
        data: { method: 'POST', type: 'application/x-www-form-urlencoded;charset=UTF-8', body: 'a=1' },
        copied: true, bytes: [255, 0, 1], empty: [204, ''], twice: 'TypeError', isResponse: true, url: it.url + '/echo',
    });
});

test('a redirect is followed to where the policy allows and no farther', async (t) => {
    const it = await setup(t), other = await setup(t);
    const to = (url) => `${it.url}/to?url=${encodeURIComponent(url)}`;
    const followed = await it.json(`const r = await fetch("${to(it.url + '/echo')}"); [r.status, r.redirected, r.url]`, '--allow-host', it.host);
    assert.deepStrictEqual(followed.result, [201, true, it.url + '/echo']);
    const refused = await it.json(`await fetch("${to(other.url + '/echo')}")`, '--allow-host', it.host);
    assert.strictEqual(refused.exit, 1);
    assert.match(refused.error.message, new RegExp(`blocked ${other.host}: .*--allow-host`));
    assert.deepStrictEqual(other.seen, []);
    const manual = await it.json(`(await api.fetch("${to(other.url)}")).status`, '--allow-host', it.host);
    assert.strictEqual(manual.result, 302);
});

test('bad arguments are TypeErrors with the line of the call', async (t) => {
    const it = await setup(t);
    for (const [call, message] of [
        ['api.fetch(5)', /^api\.fetch: url must be a string, got 5/],
        ['api.fetch()', /^api\.fetch: argument 1, url, is missing/],
        ['api.fetch("http://a/", { method: 5, "\\"": 1 })', /^api\.fetch: options/],
        ['api.fetch("http://a/", { verb: "GET" })', /^api\.fetch: options.*verb/],
        ['api.getWeather({ latitude: 91, longitude: 0 })', /^api\.getWeather: latitude must be a number from -90 to 90, got 91/],
        ['api.getWeather({ latitude: NaN, longitude: 0 })', /^api\.getWeather: latitude must be a number/],
        ['api.getWeather("Berlin")', /^api\.getWeather: place/],
        ['api.getWeather({ latitude: 1, longitude: 1 }, 2)', /^api\.getWeather: takes 1 argument, got 2/],
        ['api.getWeather()', /^api\.getWeather: needs \{latitude, longitude\}/],
    ]) {
        const { exit, error } = await it.json(`const go = async () => {\n    await ${call};\n};\nawait go();`);
        assert.strictEqual(exit, 1, call);
        assert.strictEqual(error.name, 'TypeError', call);
        assert.match(error.message, message);
        assert.match(error.stack, /at go \(script\.ts:2:/, call);
    }
    const caught = await it.json('try { await api.fetch(5); } catch (e) { [e instanceof TypeError, Object.keys(e)]; }');
    assert.deepStrictEqual(caught.result, [true, []]);
    assert.deepStrictEqual(it.seen, []);
});

test('misuse of the options is reported before anything runs', async (t) => {
    const it = await setup(t);
    for (const args of [['--allow-host', 'a, b'], ['--allow-host', ''], ['--allow-host', 'a;public'], ['--allow-host', 'a:99999'],
        ['--hint', 'latitude'], ['--hint', 'latitude=north'], ['--hint', 'latitude=91'], ['--hint', 'planet=mars']]) {
        const { code, stdout, stderr } = await it.plain('console.log("ran")', ...args);
        assert.strictEqual(code, 2, args.join(' '));
        assert.strictEqual(stdout, '');
        assert.match(stderr, args[0] === '--hint' ? /hint/ : /--allow-host/);
    }
});

test('a slow server is a timeout, which code cannot catch', async (t) => {
    const it = await setup(t);
    const code = `try { await fetch("${it.url}/slow"); } catch (e) { console.log('caught'); }`;
    const { exit, status, error, stdout } = await it.json(code, '--allow-host', it.host, '--timeout', '400');
    assert.strictEqual(exit, 124);
    assert.strictEqual(status, 'timeout');
    assert.strictEqual(error.name, 'TimeoutError');
    assert.equal(stdout, '');
    assert.strictEqual((await it.plain(code, '--allow-host', it.host, '--timeout', '400')).code, 124);
});

test('a time limit of the call itself is an error, which code can catch', async (t) => {
    const it = await setup(t);
    const { exit, result } = await it.json(`try { await api.fetch("${it.url}/slow", { timeoutMs: 50 }); } catch (e) { [e.name, e.code]; }`,
        '--allow-host', it.host, '--timeout', '120000');
    assert.strictEqual(exit, 0);
    assert.deepStrictEqual(result, ['TimeoutError', 'timeout']);
});

test('api.getWeather asks the configured service, with coordinates or hints', async (t) => {
    const it = await setup(t);
    const given = await it.json('const w = await api.getWeather({ latitude: 52.52, longitude: 13.41 }); [w.current.temperature_2m, w.daily.sunset[0], w.timezone]');
    assert.deepStrictEqual(given.result, [3.5, '2026-01-01T16:02', 'Europe/Berlin']);
    const hints = ['latitude=52.52', 'longitude=13.41', 'city=Berlin', 'country=DE'].flatMap((hint) => ['--hint', hint]);
    const hinted = await it.json('(await api.getWeather()).hourly.temperature_2m', ...hints);
    assert.deepStrictEqual(hinted.result, [1.5]);
    assert.deepStrictEqual(hinted.environment.locationHints, { latitude: 52.52, longitude: 13.41, city: 'Berlin', country: 'DE' });
    assert.deepStrictEqual(hinted.environment.warnings, []);
    const failed = await it.json('await api.getWeather({ latitude: 1, longitude: 2 })');
    assert.strictEqual(failed.exit, 1);
    assert.match(failed.error.message, /^api\.getWeather: the weather service answered: no data for this place/);
    assert.match(failed.error.stack, /script\.ts:1:/);
});

test('missing and incomplete hints are warnings', async (t) => {
    const it = await setup(t);
    const warnings = async (...args) => (await it.json('try { await api.getWeather() } catch {}', ...args)).environment.warnings;
    assert.deepStrictEqual((await it.json('1', '--hint', 'latitude=1')).environment.warnings, [], 'only for code that asks');
    assert.match((await warnings())[0], /no location hints were given/);
    assert.match((await warnings('--hint', 'latitude=1'))[0], /incomplete: longitude, city, country missing/);
    assert.match((await warnings('--hint', 'latitude=1', '--hint', 'longitude=2'))[0], /incomplete: city, country missing$/);
});

test('many calls at once, and no more than the limit', async (t) => {
    const it = await setup(t);
    const { result, error } = await it.json(`
        const all = await Promise.all(Array.from({ length: 60 }, (_, i) => api.fetch("${it.url}/echo", { method: 'POST', body: String(i) })));
        all.map((each) => Number(JSON.parse(each.body).body)).join()`, '--allow-host', it.host, '--timeout', '120000');
    assert.strictEqual(error, null);
    assert.strictEqual(result, Array.from({ length: 60 }, (_, i) => i).join());
    const many = await it.json(`const all = await Promise.allSettled(Array.from({ length: 80 }, () => api.fetch("${it.url}/empty")));
        const bad = all.filter((each) => each.status === 'rejected'); [bad.length, bad[0].reason.message]`, '--allow-host', it.host, '--timeout', '120000');
    assert.deepStrictEqual(many.result, [16, 'too many calls at once: await some first']);
});

test('large answers arrive while the code is busy and printing', async (t) => {
    const it = await setup(t);
    const { exit, result, stdout } = await it.json(`
        const calls = Array.from({ length: 6 }, () => api.fetch("${it.url}/big").then((answer) => answer.body.length));
        for (let i = 0; i < 90; i++) { for (const until = Date.now() + 3; Date.now() < until;); console.log('y'.repeat(8000)); }
        await Promise.all(calls)`, '--allow-host', it.host, '--timeout', '120000', '--memory', '256');
    assert.strictEqual(exit, 0);
    assert.deepStrictEqual(result, Array(6).fill(1 << 20));
    assert.strictEqual(stdout.length, 90 * 8001);
});

test('a call that nobody awaits is waited for; after an error it is dropped', async (t) => {
    const it = await setup(t);
    const waited = await it.json(`api.fetch("${it.url}/echo").then((answer) => console.log(answer.status)); 7`, '--allow-host', it.host);
    assert.strictEqual(waited.result, 7);
    assert.equal(waited.stdout, '201\n');
    const dropped = await it.json(`api.fetch("${it.url}/slow"); throw new RangeError('enough')`, '--allow-host', it.host, '--timeout', '120000');
    assert.strictEqual(dropped.exit, 1);
    assert.strictEqual(dropped.error.name, 'RangeError');
});

test('a server that is not there is an error that names it', async (t) => {
    const it = await setup(t);
    await it.close();
    const { exit, error } = await it.json(`await api.fetch("${it.url}/")`, '--allow-host', it.host);
    assert.strictEqual(exit, 1);
    assert.match(error.message, /^api\.fetch: .*127\.0\.0\.1/);
});
