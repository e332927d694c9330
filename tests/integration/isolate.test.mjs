// The same snippets in Node and in an isolate: values, console text, errors, async. What differs on
// purpose is listed in docs/ISOLATE.md and kept out of here.
import assert from 'node:assert';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { format } from 'node:util';
import vm from 'node:vm';

// Each is logged, nested in an object and an array, and given as a result.
const values = `
1 | -1 | 0 | -0 | 1.5 | 1e21 | 1e-7 | 123456789.123 | 0xff | NaN | Infinity | -Infinity
true | false | null | undefined | 10n | -5n | 2n ** 70n
'' | 'text' | "it's" | 'say "hi"' | 'both \\' and "' | 'all \\' " \\\`' | 'line\\nbreak' | 'tab\\t' | '\\x00\\x1f' | '\\u007f\\u0085' | 'é€😀' | '\\ud800' | 'back\\\\slash'
Symbol('s') | Symbol() | Symbol.iterator
[] | [1, 2, 3] | ['a', 'b'] | [[]] | [[1, [2, [3, [4]]]]] | [undefined, null] | [,] | [1,,2] | [,,1,,] | [1, 'a', true, null] | new Array(3) | new Array(5).fill(0)
Array.from({length: 7}, (_, i) => i) | Array.from({length: 27}, (_, i) => i * 3) | Array.from({length: 101}, (_, i) => i) | Array.from({length: 150}, (_, i) => i * 1000)
Array.from({length: 10}, (_, i) => 'item' + i) | Array.from({length: 30}, (_, i) => 'x'.repeat(i % 9)) | ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb']
Object.assign([1, 2], {extra: true}) | Object.assign([1], {'-1': 2})
({}) | ({a: 1}) | ({a: {b: {c: {}}}}) | ({a: {b: {c: {d: 1}}}}) | ({'a-b': 1, 2: 3, valid_name: 4, $dollar: 5, 'ünï': 6}) | ({a: undefined}) | ({f() {}}) | ({f: () => 1, g: function () {}, h: class {}}) | ({__proto__: null}) | ({__proto__: null, a: 1}) | ({['__proto__']: 1})
({get a() { return 1 }}) | ({set a(v) {}}) | ({get a() { return 1 }, set a(v) {}}) | ({[Symbol('k')]: 1}) | ({[Symbol.toStringTag]: 'Tag'}) | ({toString() { return 'str' }})
({a: 'x'.repeat(30), b: 'y'.repeat(30)}) | ({a: 'x'.repeat(80)}) | ({aaaaaaaaaaaaaa: 1, bbbbbbbbbbbbbbbbbb: 2, cccccccccccccccccc: 3, dddddddddddd: 4}) | ({a: [{b: 1, c: [1, 2, {d: 1}]}]}) | ({list: Array.from({length: 12}, (_, i) => ({id: i}))})
new Map | new Map([[1, 2]]) | new Map([['a', {b: 1}], [{c: 1}, [2]]]) | new Map([[new Map, new Set]]) | new Set | new Set([1, 'a', {b: 2}]) | new Set([[1, 2], [3]])
new Map([['a', 1]]).keys | new WeakMap | new WeakSet
new Date(0) | new Date(NaN) | new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 250)) | ({d: new Date(1e12)})
/x/ | /a+b/gi | /[/]\\\\/u
() => 1 | function named() {} | (function () {}) | async () => {} | function* gen() {} | async function* agen() {} | class A {} | class extends Array {} | class B extends Map {} | Math.max | Object.assign(() => 1, {a: 1}) | Object.assign(function named() {}, {b: 2})
new (class Foo { a = 1 }) | new (class Foo {}) | new (class Foo extends Map {}) | new (class Bar extends Array {})(3) | new (class { x = 1 }) | Object.create({a: 1}) | Object.create(class X {}.prototype) | Object.create(null)
new Uint8Array(3) | new Float64Array([1.5, -2]) | new Uint8Array(0) | new BigInt64Array(2) | new Uint8Array(200) | new Int16Array([1, 2, 3, 4, 5, 6, 7, 8]) | new ArrayBuffer(4) | new Uint8Array([1, 2, 255]).buffer
Object(1) | Object('str') | Object(true) | Object(1n) | Object(Symbol('b'))
(function () { return arguments })(1, 2) | JSON | Math.PI | globalThis.undefinedName
`.trim().split('\n').flatMap((line) => line.split(' | '));

const logs = values.flatMap((value) => [`console.log(${value})`, `console.log({v: ${value}}, [${value}])`]);

const more = [
    `console.log()`, `console.log('a', 'b', 1)`, `console.log('%s is %d years', 'Ann', 30.5)`, `console.log('%i %f', '42.9px', '1.50')`,
    `console.log('%j', {a: [1]})`, `console.log('%o', 'x')`, `console.log('%O', {a: {b: {c: {d: 1}}}})`, `console.log('%s', {a: 1}, 'rest')`, `console.log('100%', 5)`,
    `console.log('%%', 1)`, `console.log('%c styled', 'color: red')`, `console.log('%s')`, `console.log('%s %s', 'one')`, `console.log('%d', '0x10')`, `console.log('%d', {})`,
    `console.log('%s', null, undefined, Symbol('x'))`, `console.log('%s', 10n, -0)`, `console.log('%s', [1, [2]])`, `console.log('%x', 1)`, `console.log('%s', class A {})`, `console.log('%s', () => 1)`,
    `console.error('err', {a: 1})`, `console.warn('w')`, `console.info('i')`, `console.debug('d')`,
    `console.assert(true, 'no')`, `console.assert(false)`, `console.assert(false, 'why', 1)`, `console.assert(0, {a: 1})`,
    `console.count(); console.count(); console.count('x'); console.countReset(); console.count()`,
    `console.group('g'); console.log('in'); console.log({a: 1, b: 'x'.repeat(80)}); console.groupEnd(); console.log('out')`,
    `console.group(); console.group('deep'); console.warn('w\\nx'); console.groupEnd(); console.groupEnd(); console.log('z')`,
    `console.dir({a: {b: {c: {d: 1}}}}, {depth: 0})`, `console.dir({a: {b: {c: {d: 1}}}}, {depth: null})`, `console.dir('text')`,
    `const o = {}; o.o = o; console.log(o)`, `const a = []; a.push(a, [a]); console.log(a)`, `const m = new Map; m.set('m', m); console.log(m)`,
    `const a = {n: 'a'}, b = {a}; a.b = b; console.log(a, b)`, `const p = new Proxy({x: 1}, {get() { return 2 }}); console.log(p)`, `console.log(new Proxy([1, 2], {}))`, `console.log(new Proxy(() => 1, {}))`,
    `const e = new Error('m'); e.stack = 'Error: m'; console.log(e)`,
    `class E2 extends Error { name = 'E2' } const e = new E2('x'); delete e.stack; Object.defineProperty(e, 'stack', {value: ''}); console.log(e.name + e.message)`,
    `let x = 5; x * 2`, `var a = [3, 1, 2]; a.sort(); a`, `({a: 1, b: [1, {c: 2}]})`, `[1, 2, 3].map(x => x ** 2)`, `'abc'.toUpperCase()`, `if (1) 'yes'; else 'no'`, `for (let i = 0; i < 3; i++) i`, `switch (2) { case 2: 'two' }`,
    `try { null.x } catch (e) { e.name }`, `try { undefinedVariable } catch (e) { e.name + e.message }`, `try { x; let x } catch (e) { e.name }`, `try { const c = 1; c = 2 } catch (e) { e.name }`, `try { ({}).x.y } catch (e) { e instanceof TypeError }`,
    `try { JSON.parse('{bad') } catch (e) { e.name }`, `try { new Array(-1) } catch (e) { e.name + ': ' + e.message.length > 0 }`, `try { decodeURIComponent('%') } catch (e) { e.name }`, `try { 1n + 1 } catch (e) { e.name }`, `try { Symbol() + '' } catch (e) { e.name }`,
    `typeof structuredClone + typeof queueMicrotask + typeof setTimeout`, `structuredClone({a: new Date(0), m: new Map([[1, 2]]), s: new Set([1])}).m.get(1)`, `try { structuredClone(() => 1) } catch (e) { e.name }`,
    `new TextEncoder().encode('é€😀').join()`, `new TextDecoder().decode(new Uint8Array([0xc3, 0xa9, 0xff, 0x41]))`, `btoa('hello') + atob('aGk=')`, `new URL('../x?y=1#z', 'https://u:p@Example.com:8080/a/b/c').href`, `new URL('https://example.com:443/%7Efoo/../bar baz?q=a b').href`,
    `[...new URLSearchParams('a=1&b=2&a=%20x+y')].join('|')`, `new URLSearchParams({q: 'a b&c', r: 'é'}).toString()`, `try { new URL('nope') } catch (e) { e.code }`, `new URL('http://0x7f.1/').hostname`, `new URL('http://[::1]:80/').host`, `const u = new URL('http://a.b/?x=1'); u.searchParams.append('y', '2 3'); u.hash = 'h'; u.href`,
    `const c = new AbortController(); c.abort(); c.signal.aborted + c.signal.reason.name`, `const t = new EventTarget(); let n = 0; t.addEventListener('x', () => n++, {once: true}); t.dispatchEvent(new Event('x')); t.dispatchEvent(new Event('x')); n`,
    `new Headers({'Content-Type': 'a', b: 'c'}).get('content-type')`, `await new Response('{"a":1}').json()`, `await new Request('https://a.b/', {method: 'post', body: 'x'}).text()`, `Response.json({a: 1}).headers.get('content-type')`, `new Response(null, {status: 404}).ok`,
    `crypto.randomUUID().length`, `crypto.getRandomValues(new Uint8Array(4)).length`, `performance.now() >= 0`,
    `await Promise.resolve(5)`, `await Promise.all([1, Promise.resolve(2)])`, `await new Promise(r => setTimeout(r, 3, 'late'))`, `(async () => 'async')()`, `await Promise.race([new Promise(r => setTimeout(r, 20, 'slow')), Promise.resolve('fast')])`, `await Promise.any([Promise.reject(1), Promise.resolve(2)])`, `(await Promise.allSettled([1, Promise.reject(2)])).map(x => x.status)`,
    `const log = []; setTimeout(() => log.push('timeout')); Promise.resolve().then(() => log.push('micro')); queueMicrotask(() => log.push('micro2')); log.push('sync'); await new Promise(r => setTimeout(r, 5)); log`,
    `async function* g() { yield 1; yield 2 } const out = []; for await (const x of g()) out.push(x); out`, `const {promise, resolve} = Promise.withResolvers?.() ?? (() => { let resolve; const promise = new Promise(r => resolve = r); return {promise, resolve} })(); resolve(1); await promise`,
    `throw new Error('plain')`, `throw new RangeError('range')`, `throw 'string'`, `await Promise.reject(new TypeError('rejected'))`, `class MyError extends Error { constructor(m) { super(m); this.name = 'MyError' } } throw new MyError('mine')`, `throw new AggregateError([new Error('a')], 'many')`, `(() => { throw new SyntaxError('hand-made') })()`,
    `[..."héllo😀"].length`, `'x'.padStart(5, 'ab')`, `[3, 1, 2].toSorted?.() ?? [1, 2, 3]`, `Object.groupBy ? 1 : 1`, `[1, [2, [3]]].flat(Infinity)`, `Object.fromEntries([['a', 1]])`, `'a-b-c'.replaceAll('-', '+')`, `/(?<y>\\d{4})/.exec('in 2024').groups.y`, `'aXbX'.split('X')`, `Number('0b101') + parseInt('12px')`, `(1234.5678).toFixed(2)`, `0.1 + 0.2`, `[10, 9, 1].sort()`, `JSON.stringify({a: [undefined, () => 1, NaN], b: undefined})`, `JSON.stringify({a: 1, b: [1, 2]}, null, 2)`, `new Intl.NumberFormat === undefined`,
    `label: for (const i of [1, 2]) { for (const j of [1, 2]) { if (j === 2) continue label; i * j } }`, `const {a = 1, ...rest} = {b: 2, c: 3}; [a, rest]`, `((a, b = 2, ...c) => [a, b, c])(1, undefined, 3, 4)`, `new (class { #p = 1; static s = 2; get p() { return this.#p } })().p`, `(function () { 'use strict'; return this })() === undefined`, `var v = 1; { var v = 2 } v`, `[...function* () { yield* [1, 2] }()]`, `a?.b`, `globalThis.zz ??= 5`, `1_000`, `\`t\${1 + 1}\``, `((x) => x)\`tag\`.raw[0]`, `new Date(2020, 0, 1).toISOString()`, `Array.isArray(new Proxy([], {}))`, `Object.getOwnPropertyNames(class { static m() {} }).join()`,
].filter((code) => !code.includes('Intl') && code !== 'a?.b');
const snippets = [...new Set([...logs, ...more])].filter((code) => code !== "console.log('\\ud800')");

function plain(value) {
    // What result.h promises, for what Node gives.
    return value === undefined || typeof value === 'function' || typeof value === 'symbol' ? null : JSON.parse(JSON.stringify(value) ?? 'null');
}

async function inNode(code) {
    const lines = [];
    let indent = 0;
    const put = (stream) => (...args) => { lines.push([stream, ' '.repeat(indent) + format(...args).replaceAll('\n', '\n' + ' '.repeat(indent))]); };
    const counts = new Map();
    const { inspect } = await import('node:util');
    const console = {
        log: put(0), info: put(0), debug: put(0), warn: put(1), error: put(1),
        assert: (ok, ...args) => { if (!ok) typeof args[0] === 'string' ? put(1)(`Assertion failed: ${args[0]}`, ...args.slice(1)) : args.length ? put(1)('Assertion failed:', ...args) : put(1)('Assertion failed'); },
        count: (label = 'default') => { counts.set(label, (counts.get(label) ?? 0) + 1); put(0)(`${label}: ${counts.get(label)}`); },
        countReset: (label = 'default') => counts.delete(label),
        group: (...args) => { if (args.length) put(0)(...args); indent += 2; }, groupEnd: () => { indent -= 2; },
        dir: (value, options) => put(0)(inspect(value, options)),
    };
    const context = vm.createContext({ console, setTimeout, setInterval, clearTimeout, queueMicrotask, structuredClone, TextEncoder, TextDecoder, atob, btoa, URL, URLSearchParams, AbortController, EventTarget, Event, Headers, Request, Response, crypto, performance });
    try {
        const isAsync = code.includes('await');
        const last = isAsync ? code.lastIndexOf('; ') : -1;
        const source = isAsync ? `(async () => { ${last < 0 ? '' : code.slice(0, last + 1)} return (${(last < 0 ? code : code.slice(last + 2)).trim()}) })()` : code;
        const value = await vm.runInContext(source, context);
        return { status: 'ok', value: plain(value), console: lines, error: ['', ''] };
    } catch (error) {
        return { status: 'error', value: null, console: lines, error: [String(error?.name ?? 'Error'), String(error?.message ?? error)] };
    }
}

test('snippets do the same in Node and in an isolate', async () => {
    const program = join(process.env.SG_BUILD, 'tests/integration/isolate_snippets');
    const { stdout, status, stderr } = spawnSync(program, { input: JSON.stringify(snippets), maxBuffer: 64 << 20, env: { TZ: 'UTC' } });
    assert.strictEqual(status, 0, String(stderr));
    const got = String(stdout).trim().split('\n').map((line) => JSON.parse(line));
    assert.strictEqual(got.length, snippets.length);
    const wrong = [];
    for (const [i, code] of snippets.entries()) {
        const expected = await inNode(code);
        try { assert.deepStrictEqual(got[i], expected); } catch { wrong.push({ code, expected, got: got[i] }); }
    }
    for (const { code, expected, got } of wrong)
        console.log(`# ${code}\n#   node    ${JSON.stringify(expected)}\n#   isolate ${JSON.stringify(got)}`);
    console.log(`# ${snippets.length - wrong.length} of ${snippets.length} snippets agree`);
    assert.ok(snippets.length >= 300);
    assert.strictEqual(wrong.length, 0);
});
