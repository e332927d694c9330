#include "isolate/inside/report.h"

#include "isolate/inside/internal.h"
#include "isolate/inside/result.h"

enum { MESSAGE_MAX = 64 << 10 };

static void report_put_text(struct buf *out, struct str text)
{
    buf_clear(out);
    buf_put(out, str_slice(text, 0, MESSAGE_MAX));
}

void report_error(struct isolate_result *result, enum isolate_status status, const char *name,
                  const char *message)
{
    result->status = status;
    result->has_value = false;
    buf_clear(&result->json);
    buf_put_cstr(&result->json, "null");
    report_put_text(&result->error_name, str_of(name));
    report_put_text(&result->error_message, str_of(message));
    buf_clear(&result->error_stack);
    buf_printf(&result->error_stack, "%s: %s", name, message);
}

void report_timeout(struct isolate *isolate)
{
    char text[96];
    if (vm_is_interrupted(isolate->vm)) {
        report_error(isolate->result, ISOLATE_INTERRUPTED, "Interrupted",
                     "the code was interrupted");
        return;
    }
    (void)snprintf(text, sizeof text, "the code ran longer than %lld ms",
                   (long long)isolate->limits.timeout_ms);
    report_error(isolate->result, ISOLATE_TIMEOUT, "TimeoutError", text);
}

static void report_memory(struct isolate *isolate)
{
    char text[96];
    (void)snprintf(text, sizeof text, "the code needs more than %llu MB of memory",
                   (unsigned long long)(isolate->limits.memory_bytes >> 20));
    report_error(isolate->result, ISOLATE_MEMORY, "MemoryError", text);
}

void report_thrown(struct isolate *isolate, vm_value thrown)
{
    struct inspect how = host_inspect(isolate);
    if (vm_kind_of(thrown) == VM_NULL && isolate_memory(isolate) > isolate->limits.memory_bytes) {
        report_memory(isolate); /* no memory was left to say so */
        return;
    }
    struct inspect_error parts = inspect_error(&how, thrown);
    if (str_eq(parts.name, STR("InternalError")) && str_eq(parts.message, STR("out of memory"))) {
        report_memory(isolate);
        return;
    }
    isolate->result->status = ISOLATE_ERROR;
    report_put_text(&isolate->result->error_name, parts.name);
    report_put_text(&isolate->result->error_message, parts.message);
    report_put_text(&isolate->result->error_stack, parts.stack);
    buf_put_cstr(&isolate->result->json, "null");
}

void report_value(struct isolate *isolate, vm_value value)
{
    struct isolate_result *result = isolate->result;
    struct inspect how = host_inspect(isolate);
    const struct result_limits limits = {.depth = isolate->limits.result_depth,
                                         .items = isolate->limits.result_items,
                                         .bytes = isolate->limits.result_bytes};
    result->status = ISOLATE_OK;
    result->has_value = vm_kind_of(value) != VM_UNDEFINED;
    result_put(&how, value, &limits, &result->json);
    if (isolate->call->wants_text) {
        how.bytes_max = limits.bytes;
        report_put_text(&result->text, inspect_value(&how, value));
    }
}

void report_trap(struct isolate *isolate, enum rt_trap trap)
{
    isolate->is_gone = true;
    if (trap == RT_TRAP_DEADLINE || vm_is_expired(isolate->vm))
        report_timeout(isolate);
    else if (trap == RT_TRAP_STACK)
        report_error(isolate->result, ISOLATE_ERROR, "RangeError",
                     "Maximum call stack size exceeded");
    else if (isolate_memory(isolate) > isolate->limits.memory_bytes)
        report_memory(isolate);
    else
        report_error(isolate->result, ISOLATE_CRASH, "EngineError", rt_trap_text(trap));
}
