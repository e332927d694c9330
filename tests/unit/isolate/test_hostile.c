#include "run.h"

#include "base/clock.h"

/* Code that means harm: each ends with a clear error, and the next isolate works. */

static void still_works(void)
{
    test_expect_json("[1, 2, 3].map(x => x * 2)", "[2,4,6]");
}

enum { IN_TIME_MS = 60000 }; /* with the limit of a second, on any machine */

/* Ends in one of these ways, in time, and leaves the process healthy. */
static void survives(const char *code)
{
    int64_t start = clock_now_ms();
    AUTO_RESULT struct isolate_result result = test_run(code, NULL);
    if (result.status == ISOLATE_CRASH || clock_now_ms() - start > IN_TIME_MS)
        print_message("%s: %s %s after %lld ms\n", code, isolate_status_name(result.status),
                      buf_cstr(&result.error_message), (long long)(clock_now_ms() - start));
    CHECK(result.status != ISOLATE_CRASH);
    CHECK(clock_now_ms() - start < IN_TIME_MS);
    still_works();
}

TEST(hostile_loops_time_out)
{
    test_expect_error("while (1);", ISOLATE_TIMEOUT, "TimeoutError", "1000 ms");
    test_expect_error("for (;;) { try { for (;;); } catch {} finally { continue } }",
                      ISOLATE_TIMEOUT, "TimeoutError", "");
    survives("const f = () => Promise.resolve().then(f); f()");
    test_expect_error("const f = () => queueMicrotask(f); f()", ISOLATE_TIMEOUT, "TimeoutError",
                      "");
    test_expect_error("/(a+)+$/.test('a'.repeat(40) + 'b')", ISOLATE_TIMEOUT, "TimeoutError", "");
    test_expect_error("async function f() { for (;;) { try { await f2() } catch {} } }"
                      "async function f2() { throw 1 } f()",
                      ISOLATE_TIMEOUT, "TimeoutError", "");
    test_expect_error("({get a() { for (;;); }})", ISOLATE_TIMEOUT, "TimeoutError", "");
    test_expect_error("({toJSON() { for (;;); }})", ISOLATE_TIMEOUT, "TimeoutError", "");
    test_expect_error("new Proxy({}, {ownKeys() { for (;;); }})", ISOLATE_TIMEOUT, "TimeoutError",
                      "");
    test_expect_error("throw {get message() { for (;;); }, stack: 'x'}", ISOLATE_TIMEOUT,
                      "TimeoutError", "");
    still_works();
}

TEST(hostile_recursion_is_a_range_error)
{
    test_expect_error("function f() { f() } f()", ISOLATE_ERROR, "RangeError",
                      "Maximum call stack size exceeded");
    test_expect_json("function f() { try { return f() } catch (e) { return e.name } } f()",
                     "\"RangeError\"");
    survives("let o = {}; for (let i = 0; i < 1e5; i++) o = {o}; JSON.stringify(o)");
    survives("let o = []; for (let i = 0; i < 1e5; i++) o = [o]; o.toString()");
    survives("JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))");
    survives("JSON.parse('['.repeat(1e6))");
    survives("eval('('.repeat(1e5) + ')'.repeat(1e5))");
    survives("eval('['.repeat(1e6))");
    survives("eval('!'.repeat(1e6) + '1')");
    survives("eval('a=>'.repeat(1e5) + '1')");
    survives("eval('{'.repeat(1e5) + '}'.repeat(1e5))");
    survives("eval('`${'.repeat(1e5))");
    survives("new RegExp('('.repeat(1e5) + ')'.repeat(1e5))");
    survives("new RegExp('(?:a'.repeat(1e4) + ')*'.repeat(1e4)).test('a'.repeat(1e4))");
    survives("const p = []; p[0] = p; let q = p; for (let i = 0; i < 1e5; i++) q = new Proxy(q, "
             "{}); q.x");
    survives("let f = () => {}; for (let i = 0; i < 1e5; i++) f = f.bind(); f()");
    survives("class A { static get [Symbol.species]() { return A } } let x = {}; "
             "for (let i = 0; i < 1e5; i++) x = Object.create(x); x.nothing");
    survives(
        "let p = Promise.resolve(); for (let i = 0; i < 1e5; i++) p = p.then(() => 1); await p");
    survives(
        "let a = {}; let b = a; for (let i = 0; i < 2e5; i++) b = b.next = {}; a = b = null; 1");
}

TEST(hostile_memory_ends)
{
    static const char *const codes[] = {
        "const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)",
        "let s = 'x'; for (;;) s += s",
        "'x'.repeat(2 ** 30)",
        "new Array(1e9) + ''",
        "new Array(1e9).fill(0)",
        "new Uint8Array(2 ** 31)",
        "const k = []; for (;;) k.push(new Uint8Array(1e6))",
        "const m = new Map(); for (let i = 0;; i++) m.set(i, {})",
        "let b = 1n; for (;;) b <<= 100000n",
        "Array.from({length: 1e9})",
        "[].concat(...new Array(1e5).fill(new Array(1e5)))",
        "'a'.padEnd(2 ** 29).split('')",
        "JSON.stringify(new Array(1e7).fill('abcdefghij'))",
        "new ArrayBuffer(2 ** 32)",
        "const a = []; a.length = 4294967295; a.sort()",
        "Array.prototype.indexOf.call({length: 4294967295}, 1)",
        "structuredClone(new Array(1e7).fill({}))",
        "Symbol('x'.repeat(1e8))",
        "new Error('x'.repeat(1e8))",
    };
    for (size_t i = 0; i < countof(codes); i++)
        survives(codes[i]);
}

TEST(hostile_memory_can_be_caught)
{
    test_expect_json("let n = 0; try { const a = []; for (;;) a.push(new Array(1e5).fill(n++)) } "
                     "catch (e) { e.message }",
                     "\"out of memory\"");
}

TEST(hostile_results_are_tamed)
{
    survives("const a = []; for (let i = 0; i < 100; i++) a.push(a); a");
    survives(
        "new Proxy({}, {ownKeys() { return new Array(1e6).fill().map((_, i) => 'k' + i) }, "
        "getOwnPropertyDescriptor() { return {enumerable: true, configurable: true, value: 1} }})");
    survives("new Proxy([], {get(t, k) { return k === 'length' ? 2 ** 53 : t }})");
    survives(
        "const o = {}; Object.defineProperty(o, 'x', {get() { return o.x }, enumerable: true}); o");
    survives("let d = 0; const make = () => ({get next() { return make() }}); make()");
    survives("const r = Proxy.revocable({}, {}); r.revoke(); r.proxy");
    survives("({[Symbol.toStringTag]: 'x'.repeat(1e6), constructor: {name: 'y'.repeat(1e6)}})");
    survives("class X { static [Symbol.hasInstance]() { throw 1 } } new X");
    survives("Object.setPrototypeOf({}, new Proxy({}, {getPrototypeOf() { throw 1 }}))");
    survives("const p = new Proxy({}, {getPrototypeOf() { return p }}); Object.create(p)");
    survives("console.log(new Proxy({}, {get() { throw 1 }, ownKeys() { throw 2 }})); 1");
    survives("console.log({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error }}); 1");
    survives("console.log({[Symbol.for('nodejs.util.inspect.custom')]() { return this }}); 1");
    survives(
        "const c = {[Symbol.for('nodejs.util.inspect.custom')]() { console.log(c); return 'x' }}; "
        "console.log(c); 1");
    survives("for (;;) console.log('x')");
    survives("console.log('x'.repeat(1e7)); console.log(new Array(1e6).fill({a: 1})); 1");
    survives("console.log(Array.from({length: 90}, () => Array.from({length: 90}, () => "
             "Array.from({length: 90}, () => 'x'.repeat(50))))); 1");
}

TEST(hostile_sanitizer_ignores_replaced_globals)
{
    test_expect_json(
        "Map.prototype.forEach = Set.prototype.forEach = () => { throw 1 };"
        "Array.prototype[Symbol.iterator] = null; Date.prototype.toISOString = () => 'no';"
        "JSON.stringify = null; Object.keys = null; Reflect.apply = null;"
        "({m: new Map(), d: new Date(0), a: [1]})",
        "{\"m\":{},\"d\":\"1970-01-01T00:00:00.000Z\",\"a\":[1]}");
    test_expect_console(
        "const {log} = console; Array.prototype.push = Array.prototype.join = null;"
        "String.prototype.slice = null; globalThis.String = null; log({a: [1, 'x']})",
        "{ a: [ 1, 'x' ] }\n");
    test_expect_json(
        "Object.defineProperty(Object.prototype, 'a', {get() { throw 1 }, set() { throw 2 }});"
        "Object.defineProperty(Array.prototype, '0', {set() { throw 3 }}); setTimeout(() => {}, "
        "1); 5",
        "5");
}

TEST(hostile_console_is_counted)
{
    AUTO_BUF struct buf out = {0};
    AUTO_RESULT struct isolate_result result =
        test_run("for (let i = 0; i < 250; i++) console.log(i); console.error('e')", &out);
    CHECK_INT(result.lines[ISOLATE_STDOUT], 100);
    CHECK_INT(result.dropped[ISOLATE_STDOUT], 150);
    CHECK_INT(result.lines[ISOLATE_STDERR], 1);
    CHECK_INT(result.dropped[ISOLATE_STDERR], 0);
}

/* There is no way to the host from any object a script can reach. */
TEST(hostile_walks_find_nothing)
{
    test_expect_json(
        "this.constructor.constructor('return typeof process.binding + typeof require + "
        "typeof std + typeof os + typeof host')()",
        "\"undefinedundefinedundefinedundefinedundefined\"");
    test_expect_json(
        "Object.getOwnPropertyNames(globalThis).filter(n => /^(host|std|os|bjson|scriptArgs|"
        "print|load|gc|Worker|WebAssembly)$/.test(n))",
        "[]");
    test_expect_error("(function () { return arguments.callee.caller.arguments[0] })()",
                      ISOLATE_ERROR, "TypeError", "");
    survives("Error.prepareStackTrace = (e, frames) => frames.map(f => f.getFunction && "
             "f.getFunction()); "
             "new Error('x').stack");
    survives(
        "Error.prepareStackTrace = () => { throw 1 }; setTimeout(() => { throw new Error('x') })");
    survives("Error.stackTraceLimit = 1e9; function f(n) { if (n) f(n - 1); else throw new Error } "
             "f(1000)");
}

TEST(hostile_reuse_shows_nothing)
{
    (void)0;
    AUTO_RESULT struct isolate_result first =
        test_run("globalThis.secret = 'TENANT-SECRET-'.repeat(1000); const b = new "
                 "Uint8Array(1e6).fill(0x41); 1",
                 NULL);
    CHECK_INT(first.status, ISOLATE_OK);
    /* Uninitialised memory that a script can reach would show here. */
    test_expect_json(
        "const b = new Uint8Array(4e6); let sum = 0; for (let i = 0; i < b.length; i += 64) "
        "sum += b[i]; [sum, typeof secret]",
        "[0,\"undefined\"]");
}
