#include "run.h"

#include "isolate/vm/rt.h"

struct isolate_engine *test_engine(void)
{
    static struct isolate_engine *engine;
    struct err err = {0};
    CHECK_OK(rt_start(&err)); /* the harness takes SIGSEGV for itself before each test */
    static const char *const bridges[] = {"echo", "fetch", NULL};
    if (engine == NULL)
        CHECK_OK(isolate_engine_new(bridges, &engine, &err));
    return engine;
}

struct isolate_limits test_limits(void)
{
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = 1000;
    return limits;
}

static void collect(void *user, enum isolate_stream stream, struct str text)
{
    struct buf *out = user;
    if (out == NULL)
        return;
    if (stream == ISOLATE_STDERR)
        buf_put_cstr(out, "! ");
    buf_put(out, text);
    buf_put_char(out, '\n');
}

struct isolate_result test_run_in(struct isolate *isolate, const struct isolate_call *call,
                                  struct buf *out)
{
    struct err err = {0};
    struct isolate_result result = {0};
    struct isolate_host host = {.user = out, .console = collect};
    CHECK_OK(isolate_run(isolate, call, &host, &result, &err));
    return result;
}

struct isolate_result test_run(const char *code, struct buf *out)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    struct isolate_call call = {.code = str_of(code)};
    return test_run_in(isolate, &call, out);
}

void test_expect_json(const char *code, const char *json)
{
    AUTO_RESULT struct isolate_result result = test_run(code, NULL);
    if (result.status != ISOLATE_OK || strcmp(buf_cstr(&result.json), json) != 0)
        print_message("code: %s\nstatus: %s\nerror: %s\nwant: %s\ngot:  %s\n", code,
                      isolate_status_name(result.status), buf_cstr(&result.error_stack), json,
                      buf_cstr(&result.json));
    CHECK_INT(result.status, ISOLATE_OK);
    CHECK_CSTR(buf_cstr(&result.json), json);
}

void test_expect_error(const char *code, enum isolate_status status, const char *name,
                       const char *message)
{
    AUTO_RESULT struct isolate_result result = test_run(code, NULL);
    if (result.status != status || strcmp(buf_cstr(&result.error_name), name) != 0 ||
        strstr(buf_cstr(&result.error_message), message) == NULL)
        print_message("code: %s\nstatus: %s\nerror: %s\nvalue: %s\n", code,
                      isolate_status_name(result.status), buf_cstr(&result.error_stack),
                      buf_cstr(&result.json));
    CHECK_INT(result.status, status);
    CHECK_CSTR(buf_cstr(&result.error_name), name);
    CHECK(strstr(buf_cstr(&result.error_message), message) != NULL);
}

void test_expect_console(const char *code, const char *lines)
{
    AUTO_BUF struct buf out = {0};
    AUTO_RESULT struct isolate_result result = test_run(code, &out);
    if (result.status != ISOLATE_OK || strcmp(buf_cstr(&out), lines) != 0)
        print_message("code: %s\nerror: %s\nwant:\n%s\ngot:\n%s\n", code,
                      buf_cstr(&result.error_stack), lines, buf_cstr(&out));
    CHECK_INT(result.status, ISOLATE_OK);
    CHECK_CSTR(buf_cstr(&out), lines);
}
