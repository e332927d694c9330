#include "egress/gate/gate.h"

#include "base/buf.h"
#include "base/clock.h"
#include "egress/gate/gate_internal.h"
#include "io/loop.h"

/* Ends. */

static void gate_end(struct gate_call *call)
{
    call->is_ended = true;
    allowance_leave(&call->user);
    if (call->idle != NULL)
        timer_clear(call->idle);
    timer_set(call->timer, 0, 0);
}

void gate_fail(struct gate_call *call, const struct err *why)
{
    call->why = *why;
    gate_end(call);
}

void gate_refuse(struct gate_call *call, enum err_code code, const struct verdict *verdict)
{
    call->refusal = *verdict;
    call->is_refused = true;
    struct err why;
    (void)err_set(&why, code, "%s", verdict->text);
    gate_fail(call, &why);
}

void gate_succeed(struct gate_call *call, const struct fetch_answer *http)
{
    AUTO_BUF struct buf url = {0};
    url_put(&call->url, &url);
    struct gate_answer answer = {
        .http = *http,
        .url = arena_dup(&call->arena, buf_str(&url)),
        .is_redirected = call->hops > 0,
    };
    gate_end(call);
    timer_clear(call->timer);
    call->done(call->ctx, &answer, NULL, NULL);
}

static void gate_on_timer(void *ctx)
{
    struct gate_call *call = ctx;
    if (!call->is_ended) {
        call->resolve = resolve_free(call->resolve);
        call->fetch = fetch_free(call->fetch);
        if (call->user.is_waiting)
            (void)err_set(&call->why, ERR_TIMEOUT,
                          "the request did not start in time: other requests of the sandbox used "
                          "all its connections");
        else
            (void)err_set(&call->why, ERR_TIMEOUT, "%s: no answer in time", call->url.host.text);
        gate_end(call);
        timer_clear(call->timer);
    }
    call->done(call->ctx, NULL, call->is_refused ? &call->refusal : NULL, &call->why);
}

void gate_tell(const struct gate_call *call, const struct verdict *verdict, const struct host *host,
               uint16_t port)
{
    const struct gate_options *options = call->gate->options;
    if (options->on_verdict != NULL)
        options->on_verdict(options->ctx, verdict, host, port);
    if (call->on_verdict != NULL)
        call->on_verdict(call->verdict_ctx, verdict, host, port);
}

/* A call. */

static int check_request(const struct gate_request *request, struct err *err)
{
    if (request->header_count > FETCH_REQUEST_HEADERS_MAX)
        return err_set(err, ERR_INVALID, "more than %d headers", FETCH_REQUEST_HEADERS_MAX);
    if (request->body.len > FETCH_REQUEST_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "the body has more than %d bytes",
                       FETCH_REQUEST_BODY_MAX);
    for (size_t i = 0; i < request->header_count; i++)
        if (fetch_check_header(request->headers[i].name, request->headers[i].value, err) < 0)
            return -1;
    return fetch_check_method(request->method, err);
}

static void copy_request(struct gate_call *call, const struct gate_request *request)
{
    struct arena *arena = &call->arena;
    call->url_text = arena_dup(arena, request->url);
    call->method = arena_dup(arena, request->method);
    call->body = arena_dup(arena, request->body);
    call->headers = arena_array(arena, struct fetch_header, request->header_count);
    call->header_count = request->header_count;
    for (size_t i = 0; i < request->header_count; i++) {
        call->headers[i].name = arena_dup(arena, request->headers[i].name);
        call->headers[i].value = arena_dup(arena, request->headers[i].value);
    }
    call->secrets = request->secrets;
    call->on_verdict = request->on_verdict;
    call->verdict_ctx = request->verdict_ctx;
    call->redirect = request->redirect;
    call->limits = request->limits;
}

struct gate_call *gate_fetch(struct gate *gate, const struct gate_request *request, gate_done *done,
                             void *ctx)
{
    loop_assert(gate->loop);
    struct gate_call *call = mem_alloc(sizeof *call);
    struct err err = {0};
    int64_t total_ms = gate_total_ms(request);
    gate->calls++;
    call->gate = gate;
    call->policy = request->policy == NULL ? NULL : policy_ref(request->policy);
    call->done = done;
    call->ctx = ctx;
    call->timer = timer_new(gate->loop, gate_on_timer, call);
    call->deadline_ms = clock_now_ms() + total_ms;
    timer_set(call->timer, total_ms, 0);
    if (check_request(request, &err) < 0) {
        gate_fail(call, &err);
        return call;
    }
    copy_request(call, request);
    if (gate_enter(call, request->allowance))
        gate_begin_hop(call);
    return call;
}

struct gate_call *gate_call_free(struct gate_call *call)
{
    if (call == NULL)
        return NULL;
    (void)resolve_free(call->resolve);
    (void)fetch_free(call->fetch);
    allowance_leave(&call->user);
    (void)timer_free(call->timer);
    if (call->idle != NULL)
        (void)timer_free(call->idle);
    (void)policy_free(call->policy);
    arena_done(&call->arena);
    call->gate->calls--;
    free(call);
    return NULL;
}

int gate_open(struct loop *loop, const struct gate_options *options, struct gate **ret_gate,
              struct err *err)
{
    struct fetcher *fetcher = NULL;
    if (fetcher_open(loop, options->ca_file, &fetcher, err) < 0)
        return -1;
    struct gate *gate = mem_alloc(sizeof *gate);
    *gate = (struct gate){.loop = loop, .options = options, .fetcher = fetcher};
    *ret_gate = gate;
    return 0;
}

struct gate *gate_free(struct gate *gate)
{
    if (gate == NULL)
        return NULL;
    assert(gate->calls == 0);
    (void)fetcher_free(gate->fetcher);
    free(gate);
    return NULL;
}
