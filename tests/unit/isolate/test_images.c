#include "run.h"

/* Pausing and resuming live isolates. */

static struct isolate *make(void)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    struct isolate *isolate = NULL;
    CHECK_OK(isolate_new(test_engine(), &limits, &isolate, &err));
    return isolate;
}

static void step(struct isolate *isolate, const char *code, const char *json)
{
    struct isolate_call call = {.code = str_of(code), .is_session = true};
    AUTO_RESULT struct isolate_result result = test_run_in(isolate, &call, NULL);
    CHECK_CSTR(buf_cstr(&result.error_stack), "");
    CHECK_CSTR(buf_cstr(&result.json), json);
}

static struct isolate *copy_of(struct isolate *isolate)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    struct isolate *copy = NULL;
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(isolate_pause(isolate, &bytes, &err));
    CHECK_OK(isolate_resume(test_engine(), buf_str(&bytes), &limits, &copy, &err));
    return copy;
}

TEST(images_pause_and_resume)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = make(), *copy = NULL;
    step(isolate,
         "let n = 1; const inc = () => ++n; const m = new Map([[1, {deep: [1, 2]}]]); "
         "let settle; const pending = new Promise(r => settle = r); 0",
         "0");
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(isolate_pause(isolate, &bytes, &err));
    step(isolate, "inc()", "2");
    CHECK_OK(isolate_resume(test_engine(), buf_str(&bytes), &limits, &copy, &err));
    step(copy, "inc()", "2");
    step(copy, "m.get(1).deep[1]", "2");
    step(copy, "settle('later'); await pending", "\"later\"");
    step(isolate, "inc()", "3");
}

TEST(images_go_on_apart)
{
    AUTO_ISOLATE struct isolate *parent = make();
    step(parent, "let list = [1]; Math.random(); 0", "0");
    struct isolate *copies[8] = {0};
    for (size_t i = 0; i < countof(copies); i++)
        copies[i] = copy_of(parent);
    char first[64] = "";
    for (size_t i = 0; i < countof(copies); i++) {
        step(copies[i], "list.push(2); list", "[1,2]");
        struct isolate_call call = {.code = STR("Math.random()"), .is_session = true};
        AUTO_RESULT struct isolate_result result = test_run_in(copies[i], &call, NULL);
        CHECK(strcmp(first, buf_cstr(&result.json)) != 0);
        (void)snprintf(first, sizeof first, "%s", buf_cstr(&result.json));
        copies[i] = isolate_free(copies[i]);
    }
    step(parent, "list", "[1]");
}

TEST(images_timers_keep_their_dates)
{
    AUTO_ISOLATE struct isolate *isolate = make(), *copy = NULL;
    step(isolate, "let fired = 0; setTimeout(() => fired++, 5); 0", "0");
    copy = copy_of(isolate);
    struct isolate_call wait = {.code = STR("await new Promise(r => setTimeout(r, 15)); fired")};
    AUTO_RESULT struct isolate_result a = test_run_in(copy, &wait, NULL);
    CHECK_CSTR(buf_cstr(&a.json), "1");
    AUTO_RESULT struct isolate_result b = test_run_in(isolate, &wait, NULL);
    CHECK_CSTR(buf_cstr(&b.json), "1");
}

static bool never(UNUSED void *user, UNUSED uint32_t id, UNUSED struct str name,
                  UNUSED struct str args, UNUSED const char **why)
{
    return true;
}

TEST(images_reject_calls_under_way_in_the_copy)
{
    struct err err = {0};
    AUTO_ISOLATE struct isolate *isolate = make(), *copy = NULL;
    struct isolate_host host = {.bridge = never};
    struct isolate_call call = {
        .code = STR("let got = 'waiting'; api.echo(1).then(v => got = v, e => got = e.message); 0"),
        .is_session = true};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(isolate_run(isolate, &call, &host, &result, &err));
    copy = copy_of(isolate);
    struct isolate_call look = {.code = STR("await null; got.slice(0, 24)"), .is_session = true};
    AUTO_RESULT struct isolate_result there = test_run_in(copy, &look, NULL);
    CHECK_CSTR(buf_cstr(&there.json), "\"the call was in progress\"");
    AUTO_RESULT struct isolate_result here = test_run_in(isolate, &look, NULL);
    CHECK_CSTR(buf_cstr(&here.json), "\"waiting\"");
}

TEST(images_refuse_foreign_bytes)
{
    struct err err = {0};
    struct isolate_limits limits = test_limits();
    AUTO_ISOLATE struct isolate *isolate = make(), *copy = NULL;
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(isolate_pause(isolate, &bytes, &err));
    CHECK_ERR(isolate_resume(test_engine(), STR("nonsense"), &limits, &copy, &err), ERR_INVALID);
    CHECK_ERR(isolate_resume(test_engine(), STR(""), &limits, &copy, &err), ERR_INVALID);
    for (size_t at = 0; at < bytes.len; at += bytes.len / 200 + 1) {
        bytes.ptr[at] = (char)(bytes.ptr[at] ^ 0x41);
        if (isolate_resume(test_engine(), buf_str(&bytes), &limits, &copy, &err) == 0) {
            struct isolate_call call = {.code = STR("1+1")};
            AUTO_RESULT struct isolate_result result = test_run_in(copy, &call, NULL);
            CHECK(result.status <= ISOLATE_INTERRUPTED); /* whatever it did, we are still here */
            copy = isolate_free(copy);
        }
        bytes.ptr[at] = (char)(bytes.ptr[at] ^ 0x41);
    }
}
