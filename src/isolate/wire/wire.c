#include "isolate/wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/sys.h"

enum { READ_SIZE = 64 << 10 };

/* --- Writing --- */

void isolate_wire_put_u32(struct buf *out, uint32_t n)
{
    buf_put(out, str_n((const char *)&n, sizeof n));
}

void isolate_wire_put_u64(struct buf *out, uint64_t n)
{
    buf_put(out, str_n((const char *)&n, sizeof n));
}

void isolate_wire_put_str(struct buf *out, struct str text)
{
    isolate_wire_put_u32(out, (uint32_t)text.len);
    buf_put(out, text);
}

void isolate_wire_begin(struct buf *out, enum isolate_wire_type type, uint32_t isolate)
{
    buf_clear(out);
    isolate_wire_put_u32(out, 0);
    isolate_wire_put_u32(out, (uint32_t)type);
    isolate_wire_put_u32(out, isolate);
}

void isolate_wire_end(struct buf *out)
{
    uint32_t length = (uint32_t)(out->len - WIRE_HEAD);
    memcpy(out->ptr, &length, sizeof length);
}

/* --- Reading --- */

bool isolate_wire_get_u32(struct str *body, uint32_t *ret_n)
{
    if (body->len < sizeof *ret_n)
        return false;
    memcpy(ret_n, body->ptr, sizeof *ret_n);
    *body = str_slice(*body, sizeof *ret_n, body->len);
    return true;
}

static bool get_u64(struct str *body, uint64_t *ret_n)
{
    if (body->len < sizeof *ret_n)
        return false;
    memcpy(ret_n, body->ptr, sizeof *ret_n);
    *body = str_slice(*body, sizeof *ret_n, body->len);
    return true;
}

bool isolate_wire_get_str(struct str *body, struct str *ret_text)
{
    uint32_t length = 0;
    if (!isolate_wire_get_u32(body, &length) || body->len < length)
        return false;
    *ret_text = str_slice(*body, 0, length);
    *body = str_slice(*body, length, body->len);
    return true;
}

int isolate_wire_take(const struct buf *in, struct isolate_wire_frame *ret_frame, struct err *err)
{
    struct str rest = buf_str(in);
    uint32_t length = 0, type = 0, isolate = 0;
    if (!isolate_wire_get_u32(&rest, &length) || !isolate_wire_get_u32(&rest, &type) ||
        !isolate_wire_get_u32(&rest, &isolate))
        return 0;
    bool known =
        (type >= WIRE_RUN && type <= WIRE_ANSWER) || (type >= WIRE_READY && type <= WIRE_CANCEL);
    if (!known)
        return err_set(err, ERR_INVALID, "a worker sent a message of unknown type %u", type);
    if (length > WIRE_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "a worker sent a message of %u bytes, which is too large", length);
    if (rest.len < length)
        return 0;
    *ret_frame = (struct isolate_wire_frame){(enum isolate_wire_type)type, isolate,
                                             str_slice(rest, 0, length)};
    return 1;
}

/* --- Structs --- */

void isolate_wire_put_limits(struct buf *out, const struct isolate_limits *limits)
{
    isolate_wire_put_u64(out, (uint64_t)limits->timeout_ms);
    isolate_wire_put_u64(out, limits->memory_bytes);
    isolate_wire_put_u32(out, limits->stack_bytes);
    isolate_wire_put_u32(out, limits->code_chars);
    isolate_wire_put_u32(out, limits->console_lines);
    isolate_wire_put_u32(out, limits->line_bytes);
    isolate_wire_put_u32(out, (uint32_t)limits->result_depth);
    isolate_wire_put_u32(out, limits->result_items);
    isolate_wire_put_u32(out, limits->result_bytes);
}

bool isolate_wire_get_limits(struct str *body, struct isolate_limits *ret_limits)
{
    struct isolate_limits limits = {0};
    uint64_t timeout = 0;
    uint32_t depth = 0;
    bool ok = get_u64(body, &timeout) && get_u64(body, &limits.memory_bytes) &&
              isolate_wire_get_u32(body, &limits.stack_bytes) &&
              isolate_wire_get_u32(body, &limits.code_chars) &&
              isolate_wire_get_u32(body, &limits.console_lines) &&
              isolate_wire_get_u32(body, &limits.line_bytes) &&
              isolate_wire_get_u32(body, &depth) &&
              isolate_wire_get_u32(body, &limits.result_items) &&
              isolate_wire_get_u32(body, &limits.result_bytes);
    if (!ok || timeout > (uint64_t)ISOLATE_TIMEOUT_NONE_MS || depth > 1000)
        return false;
    limits.timeout_ms = (int64_t)timeout;
    limits.result_depth = (int)depth;
    *ret_limits = limits;
    return true;
}

enum { CALL_SESSION = 1, CALL_TEXT = 2 };

void isolate_wire_put_call(struct buf *out, const struct isolate_call *call)
{
    isolate_wire_put_u32(out, (call->is_session ? CALL_SESSION : 0u) |
                                  (call->wants_text ? CALL_TEXT : 0u));
    isolate_wire_put_u32(out, (uint32_t)call->lang);
    isolate_wire_put_str(out, call->code);
    isolate_wire_put_str(out, str_of(call->file));
    isolate_wire_put_str(out, call->env_json);
    isolate_wire_put_u32(out, (uint32_t)call->module_count);
    for (size_t i = 0; i < call->module_count; i++) {
        isolate_wire_put_str(out, call->modules[i].path);
        isolate_wire_put_str(out, call->modules[i].source);
    }
}

bool isolate_wire_get_call(struct str *body, struct isolate_call *ret_call,
                           struct isolate_module *modules, char *file_room, size_t file_size)
{
    struct isolate_call call = {.modules = modules};
    uint32_t flags = 0, lang = 0, count = 0;
    struct str file = {0};
    struct err err = {0};
    if (!isolate_wire_get_u32(body, &flags) || !isolate_wire_get_u32(body, &lang) ||
        lang > ISOLATE_TSX || !isolate_wire_get_str(body, &call.code) ||
        !isolate_wire_get_str(body, &file) || !isolate_wire_get_str(body, &call.env_json) ||
        !isolate_wire_get_u32(body, &count) || count > WIRE_MODULES_MAX ||
        str_to_cstr(file, file_room, file_size, &err) < 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!isolate_wire_get_str(body, &modules[i].path) ||
            !isolate_wire_get_str(body, &modules[i].source))
            return false;
    call.lang = (enum isolate_lang)lang;
    call.is_session = (flags & CALL_SESSION) != 0;
    call.wants_text = (flags & CALL_TEXT) != 0;
    call.file = file.len > 0 ? file_room : NULL;
    call.module_count = count;
    *ret_call = call;
    return true;
}

enum { RESULT_VALUE = 1, RESULT_GONE = 2 };

void isolate_wire_put_result(struct buf *out, const struct isolate_result *result)
{
    isolate_wire_put_u32(out, (uint32_t)result->status);
    isolate_wire_put_u32(out, (result->has_value ? RESULT_VALUE : 0u) |
                                  (result->is_gone ? RESULT_GONE : 0u));
    isolate_wire_put_u64(out, (uint64_t)result->runtime_ns);
    for (int i = 0; i < 2; i++) {
        isolate_wire_put_u64(out, result->lines[i]);
        isolate_wire_put_u64(out, result->dropped[i]);
    }
    isolate_wire_put_str(out, buf_str(&result->json));
    isolate_wire_put_str(out, buf_str(&result->text));
    isolate_wire_put_str(out, buf_str(&result->error_name));
    isolate_wire_put_str(out, buf_str(&result->error_message));
    isolate_wire_put_str(out, buf_str(&result->error_stack));
}

/* An escaped byte may take six in an answer, which must fit into a buffer even if a worker is
 * malicious. */
enum {
    RESULT_MAX = 6 << 20,         /* of the value in either form */
    RESULT_ERROR_MAX = 256 << 10, /* of each text of an error */
};

static bool get_json(struct str *body, struct buf *out)
{
    struct str text = {0};
    if (!isolate_wire_get_str(body, &text))
        return false;
    buf_put(out, text.len <= RESULT_MAX ? text : STR("null"));
    return true;
}

static bool get_text(struct str *body, size_t max, struct buf *out)
{
    struct str text = {0};
    if (!isolate_wire_get_str(body, &text))
        return false;
    buf_put(out, str_slice(text, 0, max));
    return true;
}

bool isolate_wire_get_result(struct str *body, struct isolate_result *ret_result)
{
    uint32_t status = 0, flags = 0;
    uint64_t runtime = 0;
    isolate_result_done(ret_result);
    bool ok = isolate_wire_get_u32(body, &status) && status <= ISOLATE_INTERRUPTED &&
              isolate_wire_get_u32(body, &flags) && get_u64(body, &runtime);
    for (int i = 0; ok && i < 2; i++)
        ok = get_u64(body, &ret_result->lines[i]) && get_u64(body, &ret_result->dropped[i]);
    ok = ok && get_json(body, &ret_result->json) && get_text(body, RESULT_MAX, &ret_result->text) &&
         get_text(body, RESULT_ERROR_MAX, &ret_result->error_name) &&
         get_text(body, RESULT_ERROR_MAX, &ret_result->error_message) &&
         get_text(body, RESULT_ERROR_MAX, &ret_result->error_stack) && body->len == 0;
    ret_result->status = ok ? (enum isolate_status)status : ISOLATE_CRASH;
    ret_result->has_value = (flags & RESULT_VALUE) != 0;
    ret_result->is_gone = (flags & RESULT_GONE) != 0;
    ret_result->runtime_ns = (int64_t)(runtime & INT64_MAX);
    return ok;
}

/* --- Sockets --- */

int isolate_wire_send(int fd, struct buf *frame, struct err *err)
{
    isolate_wire_end(frame);
    for (size_t at = 0; at < frame->len;) {
        ssize_t sent = SYS(write(fd, frame->ptr + at, frame->len - at));
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_sys(err, errno, "write to a worker");
        at += (size_t)sent;
    }
    return 0;
}

static int wait_readable(int fd, int64_t until_ms, struct err *err)
{
    for (;;) {
        int64_t left = until_ms < 0 ? -1 : MAX(until_ms - clock_now_ms(), (int64_t)0);
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int ready = SYS(poll(&poller, 1, (int)MIN(left, (int64_t)INT32_MAX)));
        if (ready > 0)
            return 0;
        if (ready == 0)
            return err_set(err, ERR_TIMEOUT, "no answer in time");
        if (errno != EINTR)
            return err_sys(err, errno, "wait for a worker");
    }
}

int isolate_wire_receive(int fd, struct buf *in, int64_t ms, struct isolate_wire_frame *ret_frame,
                         struct err *err)
{
    int64_t until = ms < 0 ? -1 : clock_now_ms() + ms;
    for (;;) {
        int got = in->len == 0 ? 0 : isolate_wire_take(in, ret_frame, err);
        if (got != 0)
            return got < 0 ? -1 : 0;
        char *space = NULL;
        if (buf_reserve(in, READ_SIZE, &space, err) < 0)
            return -1;
        if (ms >= 0 && wait_readable(fd, until, err) < 0)
            return -1;
        ssize_t size = SYS(read(fd, space, READ_SIZE)); /* not recvmsg: attached fds are refused */
        if (size < 0 && (errno == EINTR || (errno == EAGAIN && ms >= 0)))
            continue;
        if (size < 0)
            return err_sys(err, errno, "read from a worker");
        if (size == 0)
            return err_set(err, ERR_UNAVAILABLE, "the worker has exited");
        buf_commit(in, (size_t)size);
    }
}
