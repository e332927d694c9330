/* Scripts whose value and console must come out as valid JSON, whatever they are. */

#include "base/err.h"
#include "base/format/json.h"
#include "fuzz.h"
#include "isolate/inside/isolate.h"

static void on_console(void *user, enum isolate_stream stream, struct str text)
{
    (void)user;
    assert(stream == ISOLATE_STDOUT || stream == ISOLATE_STDERR);
    assert(text.len <= 1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct isolate_engine *engine;
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = 250;
    limits.memory_bytes = 8 << 20;
    if (engine == NULL && isolate_engine_new(NULL, &engine, &err) < 0)
        abort();
    struct isolate *isolate = NULL;
    if (isolate_new(engine, &limits, &isolate, &err) < 0)
        abort();
    struct isolate_host host = {.console = on_console};
    struct isolate_call call = {.code = str_n((const char *)data, size), .wants_text = true};
    struct isolate_result result = {0};
    if (isolate_run(isolate, &call, &host, &result, &err) == 0) {
        AUTO_JSON struct json_t *value = NULL;
        assert(result.status != ISOLATE_CRASH);
        if (result.json.len < JSON_SIZE_MAX / 2)
            assert(json_parse(buf_str(&result.json), &value, &err) == 0);
    }
    isolate_result_done(&result);
    (void)isolate_free(isolate);
    return 0;
}
