/* Messages of a worker, read as the server reads them and as the worker does. */

#include "base/err.h"
#include "fuzz.h"
#include "isolate/wire/wire.h"

static void read_body(const struct isolate_wire_frame *frame)
{
    static struct isolate_module modules[WIRE_MODULES_MAX];
    struct isolate_limits limits;
    struct isolate_call call;
    struct isolate_result result = {0};
    char file[256];
    struct str body = frame->body, text;
    uint32_t n;
    if (frame->type == WIRE_RUN) {
        if (isolate_wire_get_limits(&body, &limits) &&
            isolate_wire_get_call(&body, &call, modules, file, sizeof file))
            assert(call.module_count <= WIRE_MODULES_MAX && call.code.len <= frame->body.len);
    } else if (frame->type == WIRE_DONE) {
        if (isolate_wire_get_result(&body, &result))
            assert(result.json.len <= frame->body.len && body.len == 0);
        isolate_result_done(&result);
    } else {
        while (isolate_wire_get_u32(&body, &n) && isolate_wire_get_str(&body, &text))
            assert(text.len <= frame->body.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    AUTO_BUF struct buf in = {0};
    buf_put(&in, str_n((const char *)data, size));
    struct isolate_wire_frame frame;
    while (isolate_wire_take(&in, &frame, &err) == 1) {
        assert(frame.body.len + WIRE_HEAD <= in.len);
        read_body(&frame);
        buf_consume(&in, WIRE_HEAD + frame.body.len);
    }
    return 0;
}
