/* Bytes that claim to be a paused isolate. What decodes is run: it may do anything but reach us. */

#include "base/err.h"
#include "fuzz.h"
#include "isolate/inside/isolate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct isolate_engine *engine;
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = 250;
    if (engine == NULL && isolate_engine_new(NULL, &engine, &err) < 0)
        abort();
    struct isolate *isolate = NULL;
    if (isolate_resume(engine, str_n((const char *)data, size), &limits, &isolate, &err) < 0)
        return 0;
    struct isolate_call call = {.code = STR("1+1")};
    struct isolate_result result = {0};
    (void)!isolate_run(isolate, &call, NULL, &result, &err);
    isolate_result_done(&result);
    (void)isolate_free(isolate);
    return 0;
}
