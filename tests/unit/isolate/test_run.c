#include "run.h"

#include <unistd.h>

#include "base/arena.h"

/* What code gives: values, errors, sessions, modules, bridges, limits. */

TEST(run_gives_the_last_expression)
{
    test_expect_json("1+1", "2");
    test_expect_json("let a = 3; a * 2", "6");
    test_expect_json("if (true) { 'yes' } else { 'no' }", "\"yes\"");
    test_expect_json("", "null");
    test_expect_json("undefined", "null");
}

TEST(run_results_are_plain_json)
{
    test_expect_json(
        "[NaN, -Infinity, undefined, null, 1n, Symbol('s'), () => 1, /x/g]",
        "[null,null,null,null,\"1n\",\"Symbol(s)\",\"[Function (anonymous)]\",\"/x/g\"]");
    test_expect_json("({a: undefined, b: new Date(0), c: new Date(NaN), d: new Map([['k', 1]]), "
                     "e: new Map([[1, 2]]), f: new Set([1]), g: new Uint8Array(2)})",
                     "{\"b\":\"1970-01-01T00:00:00.000Z\",\"c\":null,\"d\":{\"k\":1},"
                     "\"e\":[[1,2]],\"f\":[1],\"g\":[0,0]}");
    test_expect_json("({get a() { throw new Error('no') }, b: {toJSON() { return 'j' }}, "
                     "c: {toJSON() { throw 1 }}})",
                     "{\"a\":\"[Thrown: no]\",\"b\":\"j\",\"c\":\"[Thrown: 1]\"}");
    test_expect_json("const o = {}; o.o = o; o", "{\"o\":\"[Circular]\"}");
    test_expect_json("const o = {x: 1}; [o, o]", "[{\"x\":1},{\"x\":1}]");
    test_expect_json("['\\ud800', 'a\\0b', {'\\udfff': 1, '\\ud800': 2}]",
                     "[\"\xef\xbf\xbd\",\"a\xef\xbf\xbd"
                     "b\",{\"\xef\xbf\xbd#0\":1,\"\xef\xbf\xbd#1\":2}]");
    test_expect_json("class P { #hidden = 1; shown = 2 } new P", "{\"shown\":2}");
    test_expect_json("let d = 0; for (let i = 0; i < 12; i++) d = [d]; d",
                     "[[[[[[[[[[\"[Array]\"]]]]]]]]]]");
    test_expect_json("new Array(201).fill(1).length + [...new Array(201)].slice(0, 0).length",
                     "201");
}

TEST(run_takes_a_top_level_return)
{
    test_expect_json("return 5", "5");
    test_expect_json("const x = 2;\nif (x > 1) return {x};\nreturn 0", "{\"x\":2}");
    test_expect_json("const r = await Promise.resolve(4); return r + 1", "5");
}

TEST(run_awaits)
{
    test_expect_json("await Promise.resolve(7)", "7");
    test_expect_json("Promise.resolve(Promise.resolve([1]))", "[1]");
    test_expect_json("(async () => { await null; return 'x' })()", "\"x\"");
    test_expect_json("await new Promise(r => setTimeout(() => r(1), 5)) + 1", "2");
    test_expect_json(
        "const out = []; for await (const x of [1, Promise.resolve(2)]) out.push(x); out", "[1,2]");
    test_expect_error("await new Promise(() => {})", ISOLATE_ERROR, "Error", "never settles");
}

TEST(run_lets_timers_end)
{
    test_expect_console(
        "setTimeout(() => console.log('b'), 10); setTimeout(() => console.log('a')); 1", "a\nb\n");
    test_expect_console("let n = 0; const t = setInterval(() => { console.log(++n); "
                        "if (n === 3) clearInterval(t) }, 1)",
                        "1\n2\n3\n");
    test_expect_console(
        "queueMicrotask(() => console.log('micro')); setTimeout(console.log, 1, 'x', 2)",
        "micro\nx 2\n");
    test_expect_error("setTimeout(() => { throw new RangeError('late') })", ISOLATE_ERROR,
                      "RangeError", "late");
    test_expect_error("setInterval(() => {}, 1)", ISOLATE_TIMEOUT, "TimeoutError", "1000 ms");
    test_expect_error("setTimeout('code')", ISOLATE_ERROR, "TypeError", "needs a function");
}

TEST(run_reports_errors_with_the_users_own_lines)
{
    AUTO_RESULT struct isolate_result result = test_run("function f() {\n  null.x\n}\nf()", NULL);
    CHECK_INT(result.status, ISOLATE_ERROR);
    CHECK_CSTR(buf_cstr(&result.error_name), "TypeError");
    CHECK_CSTR(buf_cstr(&result.error_stack), "TypeError: cannot read property 'x' of null\n"
                                              "    at f (script.js:2:3)\n"
                                              "    at script.js:4:1");
}

TEST(run_hides_the_bootstrap_in_stacks)
{
    static const char *const codes[] = {
        "setTimeout(() => { throw new Error('x') })",
        "new URL('nonsense')",
        "structuredClone(() => 1)",
        "api.echo(1n)",
        "crypto.getRandomValues(1)",
        "return null.x",
    };
    for (size_t i = 0; i < countof(codes); i++) {
        AUTO_RESULT struct isolate_result result = test_run(codes[i], NULL);
        CHECK_INT(result.status, ISOLATE_ERROR);
        CHECK(strstr(buf_cstr(&result.error_stack), "sandglass") == NULL);
    }
}

TEST(run_keeps_line_numbers_with_return)
{
    AUTO_RESULT struct isolate_result result = test_run("const a = 1;\nreturn a.b.c", NULL);
    CHECK(strstr(buf_cstr(&result.error_stack), "script.js:2:8") != NULL);
}

TEST(run_reports_what_is_thrown)
{
    test_expect_error("throw 'text'", ISOLATE_ERROR, "Error", "text");
    test_expect_error("throw {a: 1}", ISOLATE_ERROR, "Error", "{ a: 1 }");
    test_expect_error("throw null", ISOLATE_ERROR, "Error", "null");
    test_expect_error("class MyError extends Error { name = 'MyError' } throw new MyError('m')",
                      ISOLATE_ERROR, "MyError", "m");
    test_expect_error("let x = ;", ISOLATE_ERROR, "SyntaxError", "unexpected token");
    test_expect_error("Promise.reject(new Error('nobody')); 1", ISOLATE_ERROR, "Error", "nobody");
    test_expect_error("await Promise.reject(new TypeError('t'))", ISOLATE_ERROR, "TypeError", "t");
    test_expect_error("const e = new Error('x'); Object.defineProperty(e, 'message', {get() { "
                      "throw 1 }}); throw e",
                      ISOLATE_ERROR, "Error", "");
    test_expect_error("const e = new Error('x'); e.name = Symbol(); throw e", ISOLATE_ERROR,
                      "Error", "x");
    test_expect_json("const p = Promise.reject(1); p.catch(() => {}); 5", "5");
}

TEST(run_keeps_a_session)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    static const struct {
        const char *code, *json;
    } steps[] = {
        {"const a = 1; let b = 2; class C {} function f() { return a + b }", "null"},
        {"f()", "3"},
        {"const a = 10", "null"},
        {"f()", "12"},
        {"class C { x = 5 }\nnew C().x", "5"},
        {"let a = 'text', b = await Promise.resolve(' more'); a + b", "\"text more\""},
        {"function f() { return 'new' } f()", "\"new\""},
        {"const {x, y: [z]} = {x: 1, y: [2]}; x + z", "3"},
        {"const {x, y: [z]} = {x: 3, y: [4]}; x + z", "7"},
        {"var v = 1; var v = 2; v", "2"},
        {"const f = 'was a function'; f", "\"was a function\""},
        {"let v = 3; v", "3"},
        {"class v { x = 4 } new v().x", "4"},
        {"function v() { return 5 } v()", "5"},
        {"var a = 6, f = 7; a + f", "13"},
        {"try { eval('1') } catch {} let URL = 1; URL", "1"},
        {"const URL = 2; URL", "2"},
        {"let u; class W {} const later = () => u; u = 1", "1"},
        {"let u = 8; class W { w = 9 } later() + new W().w", "17"},
    };
    for (size_t i = 0; i < countof(steps); i++) {
        struct isolate_call call = {.code = str_of(steps[i].code), .is_session = true};
        AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
        CHECK_CSTR(buf_cstr(&result.error_stack), "");
        CHECK_CSTR(buf_cstr(&result.json), steps[i].json);
    }
}

TEST(run_keeps_names_of_code_that_returns)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    static const struct {
        const char *code, *json;
    } steps[] = {
        {"const a = 1; let b = 2; class C { x = 3 } function f() { return ++b }\nreturn a + b",
         "3"},
        {"[a, b, new C().x]", "[1,2,3]"},
        {"f(); f(); b", "4"}, /* one variable, from inside and outside */
        {"b = 10; f()", "11"},
        {"try { a = 5 } catch (e) { e.name }", "\"TypeError\""},
        {"const {x, y: [z = a], ...rest} = {x: 1, y: [], q: 2}, [w] = [await 7]; return rest",
         "{\"q\":2}"},
        {"[x, z, w, rest.q]", "[1,1,7,2]"},
        {"let a = 'again'; if (true) return a; let never = 1", "\"again\""},
        {"const a = 5; a", "5"},
        {"try { never } catch (e) { e.name }", "\"ReferenceError\""},
        {"'use strict'; const s = (function () { return this })(); return s === undefined", "true"},
        {"s === undefined", "true"},
        {"for (const i of [1]) { const inner = i; return inner }", "1"},
        {"typeof inner + typeof i", "\"undefinedundefined\""},
        {"function* g() { yield 1 } async function h() { return 2 } return", "null"},
        {"[[...g()], await h()]", "[[1],2]"},
        {"const k = 1; throw new Error('x'); return", NULL},
        {"k", "1"},
    };
    for (size_t i = 0; i < countof(steps); i++) {
        struct isolate_call call = {.code = str_of(steps[i].code), .is_session = true};
        AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
        if (steps[i].json == NULL)
            continue;
        CHECK_CSTR(buf_cstr(&result.error_stack), "");
        CHECK_CSTR(buf_cstr(&result.json), steps[i].json);
    }
}

TEST(run_can_declare_again_what_failed)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    struct isolate_call bad = {.code = STR("const q = (() => { throw new Error('x') })()"),
                               .is_session = true};
    AUTO_RESULT struct isolate_result failed = test_run_in(isolate, &bad, NULL);
    CHECK_INT(failed.status, ISOLATE_ERROR);
    struct isolate_call good = {.code = STR("const q = 2; q"), .is_session = true};
    AUTO_RESULT struct isolate_result result = test_run_in(isolate, &good, NULL);
    CHECK_CSTR(buf_cstr(&result.json), "2");
}

TEST(run_does_not_run_twice_when_a_name_is_declared_again)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    AUTO_BUF struct buf out = {0};
    for (int i = 0; i < 2; i++) {
        struct isolate_call call = {.code = STR("console.log('once'); const q = 1"),
                                    .is_session = true};
        AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, &out);
        CHECK_INT(result.status, ISOLATE_OK);
    }
    CHECK_CSTR(buf_cstr(&out), "once\nonce\n");
}

TEST(run_imports_files_of_the_session)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    static const struct isolate_module modules[] = {
        {STR("lib/a.js"),
         STR("import {b} from '../b.js'; export const a = b + 1; export default 9")},
        {STR("./b.js"), STR("export const b = 41")},
        {STR("npm:left"), STR("export default (n) => n * 2; export const kind = 'package'")},
    };
    static const struct {
        const char *code, *json, *error;
    } cases[] = {
        {"import nine, {a} from './lib/a.js';\n[a, nine]", "[42,9]", ""},
        {"import {a} from './lib/a.js'; import {a as again} from './lib/a.js'; a + again", "84",
         ""},
        {"import left, * as all from 'left'; [left(21), all.kind]", "[42,\"package\"]", ""},
        {"import {kind} from 'npm:left'; kind", "\"package\"", ""},
        {"import {none} from 'left'; typeof none", "\"undefined\"", ""},
        {"import left from 'left'; return left(4)", "8", ""},
        {"import x from 'left/deeper'; x", "null", "packages of the configuration"},
        {"import nine, {a} from './lib/a.js'; export default [a, nine]", "[42,9]", ""},
        {"const m = await import('./lib/a.js'); m.a", "42", ""},
        {"import('./nothing.js')", "null", "cannot find module 'nothing.js'"},
        {"import 'fs'", "null", "only files of the session"},
        {"import('file:///etc/passwd')", "null", "only files of the session"},
        {"import('http://evil.test/x.js')", "null", "only files of the session"},
        {"import('../../etc/passwd')", "null", "leads out of the session"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct isolate_call call = {
            .code = str_of(cases[i].code), .modules = modules, .module_count = countof(modules)};
        AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
        CHECK_CSTR(buf_cstr(&result.json), cases[i].json);
        CHECK(strstr(buf_cstr(&result.error_message), cases[i].error) != NULL);
    }
}

TEST(run_keeps_what_an_import_declares)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    static const struct isolate_module modules[] = {
        {STR("npm:left"), STR("export default (n) => n * 2")}};
    static const char *const codes[] = {"import left from 'left';\nconst one = left(1)",
                                        "import left from 'left';\nconst two = left(one)",
                                        "left(two)"};
    static const char *const gives[] = {"null", "null", "8"};
    for (size_t i = 0; i < countof(codes); i++) {
        struct isolate_call call = {
            .code = str_of(codes[i]), .is_session = true, .modules = modules, .module_count = 1};
        AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
        CHECK_CSTR(buf_cstr(&result.error_message), "");
        CHECK_CSTR(buf_cstr(&result.json), gives[i]);
    }
}

TEST(run_grants_only_named_variables)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    struct isolate_call call = {.code =
                                    STR("[Object.keys(process), process.env.KEY, typeof require]"),
                                .env_json = STR("{\"KEY\":\"v\"}")};
    AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
    CHECK_CSTR(buf_cstr(&result.json), "[[\"env\"],\"v\",\"undefined\"]");
}

TEST(run_refuses_long_code)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    AUTO_BUF struct buf code = {0};
    while (code.len <= limits.code_chars)
        buf_put_cstr(&code, "1+1;\n");
    struct isolate_call call = {.code = buf_str(&code)};
    struct isolate_result result = {0};
    CHECK_ERR(isolate_run(isolate, &call, NULL, &result, &err), ERR_TOO_LARGE);
    CHECK_MSG("the limit is 12000");
}

/* --- Bridges --- */

struct bridge_test {
    struct buf calls;
    uint32_t waiting[8];
    size_t count;
};

static bool on_bridge(void *user, uint32_t id, struct str name, struct str args, const char **why)
{
    struct bridge_test *test = user;
    if (str_eq(name, STR("fetch"))) {
        *why = "not here";
        return false;
    }
    buf_printf(&test->calls, "%.*s%.*s ", STR_ARG(name), STR_ARG(args));
    test->waiting[test->count++] = id;
    return true;
}

static void on_cancel(void *user, uint32_t id)
{
    struct bridge_test *test = user;
    buf_printf(&test->calls, "cancel %u ", id);
    test->count = 0;
}

static bool on_wait(void *user, struct isolate *isolate, UNUSED int64_t ms)
{
    struct bridge_test *test = user;
    if (test->count == 0)
        return false;
    uint32_t id = test->waiting[--test->count];
    if (id % 2 == 1)
        isolate_settle(isolate, id, true, STR("{\"ok\":[1]}"));
    else
        isolate_settle(isolate, id, false, STR("{\"name\":\"TypeError\",\"message\":\"no\"}"));
    isolate_settle(isolate, 4711, true, STR("1")); /* of no isolate */
    isolate_settle(isolate, id, true, STR("2"));   /* answered already */
    return true;
}

static void bridge_case(const char *code, const char *json, const char *error, const char *calls)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    struct bridge_test test = {0};
    struct isolate_host host = {
        .user = &test, .bridge = on_bridge, .cancel = on_cancel, .wait = on_wait};
    struct isolate_call call = {.code = str_of(code)};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(isolate_run(isolate, &call, &host, &result, &err));
    if (strcmp(buf_cstr(&result.json), json) != 0)
        print_message("%s: %s %s\n", code, buf_cstr(&result.json), buf_cstr(&result.error_stack));
    CHECK_CSTR(buf_cstr(&result.json), json);
    CHECK(strstr(buf_cstr(&result.error_message), error) != NULL);
    if (calls != NULL)
        CHECK_CSTR(buf_cstr(&test.calls), calls);
    buf_done(&test.calls);
}

TEST(run_calls_bridges)
{
    bridge_case("await api.echo({a: 1}, 'x')", "{\"ok\":[1]}", "", "echo[{\"a\":1},\"x\"] ");
    bridge_case("(await Promise.allSettled([api.echo(1), api.echo(2)])).map(p => p.status)",
                "[\"fulfilled\",\"rejected\"]", "", "echo[1] echo[2] ");
    bridge_case("api.echo(1); await api.echo(2)", "null", "no", NULL);
    bridge_case("await fetch('https://example.com')", "null", "not here", "");
    bridge_case("api.nothing()", "null", "not a function", "");
}

/* A bridge named fetch that never answers, or says no. */
static bool on_fetch(void *user, uint32_t id, UNUSED struct str name, struct str args,
                     UNUSED const char **why)
{
    struct bridge_test *test = user;
    buf_printf(&test->calls, "%u ", id);
    test->waiting[test->count++] = str_find(args, STR("refuse")) < args.len ? id : 0;
    return true;
}

static bool on_fetch_wait(void *user, struct isolate *isolate, int64_t ms)
{
    struct bridge_test *test = user;
    uint32_t id = test->count > 0 ? test->waiting[--test->count] : 0;
    if (id != 0)
        isolate_settle(isolate, id, false,
                       STR("{\"name\":\"Error\",\"message\":\"blocked\",\"code\":\"forbidden\"}"));
    else
        (void)usleep((unsigned)MIN(ms, (int64_t)1000) * 1000);
    return true;
}

static void fetch_case(const char *code, const char *json, const char *calls)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    struct bridge_test test = {0};
    struct isolate_host host = {
        .user = &test, .bridge = on_fetch, .cancel = on_cancel, .wait = on_fetch_wait};
    struct isolate_call call = {.code = str_of(code)};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(isolate_run(isolate, &call, &host, &result, &err));
    CHECK_CSTR(buf_cstr(&result.error_stack), "");
    CHECK_CSTR(buf_cstr(&result.json), json);
    CHECK_CSTR(buf_cstr(&test.calls), calls);
    buf_done(&test.calls);
}

TEST(run_aborting_a_fetch_cancels_it)
{
    fetch_case("const stop = new AbortController(); setTimeout(() => stop.abort(), 5);"
               "try { await fetch('http://a/', {signal: stop.signal}) } catch (e) { e.name }",
               "\"AbortError\"", "1 cancel 1 ");
    fetch_case("try { await fetch('http://a/', {signal: AbortSignal.timeout(5)}) }"
               "catch (e) { e.name }",
               "\"TimeoutError\"", "1 cancel 1 ");
    fetch_case(
        "const why = {mine: 1}; try { await fetch('http://a/', {signal: AbortSignal.abort(why)}) }"
        "catch (e) { e === why }",
        "true", "");
    /* Nothing is left to wait for, so the run ends. */
    fetch_case("const stop = new AbortController();"
               "fetch('http://a/', {signal: stop.signal}).catch(() => {}); stop.abort(); 1",
               "1", "1 cancel 1 ");
}

TEST(run_fetch_fails_with_a_type_error)
{
    fetch_case(
        "try { await fetch('http://refuse/') }"
        "catch (e) { [e instanceof TypeError, e.message, e.cause.code, /script/.test(e.stack)] }",
        "[true,\"blocked\",\"forbidden\",true]", "1 ");
    fetch_case("const stop = new AbortController();"
               "try { await fetch('http://refuse/', {signal: stop.signal}) }"
               "catch (e) { stop.abort(); e.name }",
               "\"TypeError\"", "1 ");
}

TEST(run_copies_bridge_arguments_once)
{
    bridge_case("let n = 0; await api.echo({get a() { return ++n }})", "{\"ok\":[1]}", "",
                "echo[{\"a\":1}] ");
    bridge_case("const c = {}; c.c = c; await api.echo(c)", "null", "circular", "");
    bridge_case("await api.echo(1n)", "null", "BigInt", "");
    bridge_case("await api.echo({toJSON() { return 'j' }}, NaN, -0, undefined)", "{\"ok\":[1]}", "",
                "echo[\"j\",null,0,null] ");
    bridge_case("await api.echo(JSON.parse('{\"__proto__\":{\"x\":1}}'))", "{\"ok\":[1]}", "",
                "echo[{\"__proto__\":{\"x\":1}}] ");
}

TEST(run_bridge_arguments_are_values)
{
    bridge_case("await api.echo({then(done) { done('x') }, [Symbol('s')]: 1, f() {}})",
                "{\"ok\":[1]}", "", "echo[{}] ");
    bridge_case("class A extends Array { static get [Symbol.species]() { throw 1 } }"
                "await api.echo(A.of(1, 2))",
                "{\"ok\":[1]}", "", "echo[[1,2]] ");
    bridge_case("const b = new ArrayBuffer(8, {maxByteLength: 16}), a = new Uint8Array(b);"
                "await api.echo({get x() { b.resize(2); return 1 }, a})",
                "{\"ok\":[1]}", "", "echo[{\"x\":1,\"a\":{\"0\":0,\"1\":0}}] ");
    bridge_case(
        "await api.echo(new Proxy({a: 1}, {get: (t, k) => k === 'toJSON' ? undefined : k}))",
        "{\"ok\":[1]}", "", "echo[{\"a\":\"a\"}] ");
    bridge_case("await api.echo(new Proxy({}, {ownKeys() { throw new Error('trap') }}))", "null",
                "trap", "");
    bridge_case("let o = {}; for (let i = 0; i < 1e5; i++) o = {o}; await api.echo(o)", "null", "",
                "");
}

TEST(run_bridges_stand_a_full_stack)
{
    bridge_case("let n = 0; function f() { n++; f() } try { f() } catch (e) { e.name } "
                "function g(d) { try { g(d + 1) } catch { return globalThis.p ||= api.echo(d) } }"
                "g(0); try { await p } catch {} 'alive'",
                "\"alive\"", "", NULL);
    bridge_case("try { await api.echo(1), await api.echo(2) } catch (e) {"
                "[e.constructor === TypeError, e.constructor.constructor === Function,"
                " e.constructor.constructor('return typeof require')()] }",
                "[true,true,\"undefined\"]", "", NULL);
}

TEST(run_bridges_survive_polluted_prototypes)
{
    bridge_case(
        "Object.prototype.then = () => { throw 1 }; Array.prototype.toJSON = () => 'hacked';"
        "Function.prototype.call = Function.prototype.apply = null;"
        "delete Object.prototype.then; delete Array.prototype.toJSON;"
        "await api.echo('x')",
        "{\"ok\":[1]}", "", "echo[\"x\"] ");
    /* The engine's own JSON steps on this one: an error of the script, nothing else. */
    bridge_case("Object.defineProperty(Array.prototype, 0, {set() { throw new Error('mine') }});"
                "await api.echo('x')",
                "null", "mine", "");
    bridge_case("Promise.prototype.then = function () { return 1 };"
                "globalThis.Promise = null; JSON.stringify = JSON.parse = () => 'x';"
                "globalThis.kept = api.echo(5); 1",
                "1", "", "echo[5] ");
}

/* --- TypeScript --- */

static struct isolate_result run_ts(const char *code)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    static const struct isolate_module modules[] = {
        {STR("types.ts"), STR("export interface A { x: number }\nexport const a: A = {x: 3}")},
        {STR("bad.ts"), STR("export enum E { A }")},
    };
    struct isolate_call call = {.code = str_of(code),
                                .lang = ISOLATE_TS,
                                .modules = modules,
                                .module_count = countof(modules)};
    return test_run_in(isolate, &call, NULL);
}

TEST(run_takes_typescript)
{
    AUTO_RESULT struct isolate_result value =
        run_ts("interface P<T> { v: T }\nconst p: P<number> = {v: 2};\n(p.v as number) * 2");
    CHECK_CSTR(buf_cstr(&value.json), "4");
    AUTO_RESULT struct isolate_result module =
        run_ts("import {a, type A} from './types.ts'; const b: A = a; export default b.x");
    CHECK_CSTR(buf_cstr(&module.json), "3");
}

TEST(run_typescript_errors_have_the_authors_lines)
{
    AUTO_RESULT struct isolate_result thrown =
        run_ts("type T = {\n  a: string\n}\nconst f = (x: T): number => { throw new Error('x') "
               "};\nf({a: ''})");
    CHECK(strstr(buf_cstr(&thrown.error_stack), "script.ts:4:") != NULL);
    AUTO_RESULT struct isolate_result refused = run_ts("const a = 1;\nenum E { A }");
    CHECK_INT(refused.status, ISOLATE_ERROR);
    CHECK(strstr(buf_cstr(&refused.error_message), "line 2") != NULL);
    CHECK(strstr(buf_cstr(&refused.error_message), "enum") != NULL);
    AUTO_RESULT struct isolate_result module = run_ts("await import('./bad.ts')");
    CHECK(strstr(buf_cstr(&module.error_message), "bad.ts: line 1") != NULL);
}
