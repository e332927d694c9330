/* What a call shares with all requests of its sandbox: bytes, their rate, times, and the queue to
 * start. Without an allowance only the call's own limits apply. */

#include "egress/gate/gate_internal.h"

#include "io/loop.h"

static bool may_move(void *ctx)
{
    const struct gate_call *call = ctx;
    return !allowance_is_dry(call->allowance);
}

static void tell_used_up(const struct gate_call *call, const struct err *why)
{
    struct verdict verdict = verdict_make(VERDICT_LIMIT, "blocked %.100s:%d: %.100s",
                                          call->url.host.text, call->url.port, why->msg);
    gate_tell(call, &verdict, &call->url.host, call->url.port);
}

static int gate_allowance_on_moved(void *ctx, size_t bytes, bool is_sent, struct err *err)
{
    struct gate_call *call = ctx;
    if (call->idle != NULL)
        timer_set(call->idle, allowance_limits(call->allowance)->idle_ms, 0);
    allowance_count(call->allowance, bytes, is_sent);
    if (allowance_check(call->allowance, err) == 0)
        return 0;
    tell_used_up(call, err);
    return -1;
}

static void on_idle(void *ctx)
{
    struct gate_call *call = ctx;
    if (allowance_is_dry(call->allowance)) { /* it waits for us, not for the host */
        timer_set(call->idle, allowance_limits(call->allowance)->idle_ms, 0);
        return;
    }
    call->resolve = resolve_free(call->resolve);
    call->fetch = fetch_free(call->fetch);
    struct err why;
    (void)err_set(&why, ERR_TIMEOUT, "%.100s: sent no data within the time limit",
                  call->url.host.text);
    gate_fail(call, &why);
}

static void on_refill(void *ctx)
{
    struct gate_call *call = ctx;
    if (call->fetch != NULL)
        fetch_resume(call->fetch);
}

static int64_t stricter(int64_t one, int64_t other)
{
    return one <= 0 ? other : other <= 0 ? one : MIN(one, other);
}

int64_t gate_total_ms(const struct gate_request *request)
{
    int64_t total_ms = request->limits.total_ms > 0 ? request->limits.total_ms : FETCH_TOTAL_MS;
    if (request->allowance != NULL)
        total_ms = stricter(total_ms, allowance_limits(request->allowance)->total_ms);
    return total_ms;
}

static void use_limits(struct gate_call *call, const struct egress_proxy_limits *limits)
{
    call->limits.total_ms = stricter(call->limits.total_ms, limits->total_ms);
    call->limits.head_max = (size_t)stricter(
        call->limits.head_max > 0 ? (int64_t)call->limits.head_max : FETCH_HEAD_MAX,
        limits->head_bytes);
    call->limits.body_max = (size_t)stricter(
        call->limits.body_max > 0 ? (int64_t)call->limits.body_max : FETCH_BODY_MAX,
        limits->answer_bytes);
    call->meter = (struct fetch_meter){.may_move = may_move,
                                       .moved = gate_allowance_on_moved,
                                       .piece_max = (size_t)(limits->bytes_per_second / 4),
                                       .ctx = call};
    if (limits->idle_ms > 0)
        call->idle = timer_new(call->gate->loop, on_idle, call);
}

static void on_turn(void *ctx)
{
    gate_begin_hop(ctx);
}

bool gate_enter(struct gate_call *call, struct allowance *allowance)
{
    if (allowance == NULL)
        return true;
    call->allowance = allowance;
    call->user = (struct allowance_user){.on_turn = on_turn, .on_refill = on_refill, .ctx = call};
    use_limits(call, allowance_limits(allowance));
    return allowance_enter(allowance, &call->user);
}

bool gate_has_bytes_left(struct gate_call *call)
{
    struct err err = {0};
    if (call->allowance == NULL || allowance_check(call->allowance, &err) == 0)
        return true;
    tell_used_up(call, &err);
    gate_fail(call, &err);
    return false;
}

bool gate_take_head(struct gate_call *call, const struct fetch_header *headers, struct err *err)
{
    size_t bytes = call->method.len + call->url.target.len + strlen(call->url.host.text);
    for (size_t i = 0; i < call->header_count; i++)
        bytes += headers[i].name.len + headers[i].value.len + strlen(": \r\n");
    return gate_allowance_on_moved(call, bytes, true, err) == 0;
}
