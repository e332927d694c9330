#include "api/http/flow.h"

#include "api/http/http.h"
#include "api/http/request.h"
#include "base/buf.h"
#include "base/err.h"

struct flow {
    struct request *request;
    const struct flow_calls *calls;
    void *ctx;
    struct buf out;
    size_t sent;    /* bytes of `out` that have left */
    int64_t length; /* of the whole, -1 when unknown */
    bool was_full, is_finished, is_broken;
};

struct flow *reply_flow(struct request *request, int status, const char *content_type,
                        int64_t length, const struct flow_calls *calls, void *ctx)
{
    struct flow *flow = mem_alloc(sizeof *flow);
    flow->request = request;
    flow->calls = calls;
    flow->ctx = ctx;
    flow->length = length;
    request->flow = flow;
    reply_body(request, status, content_type, &(struct buf){0});
    return flow;
}

size_t flow_unsent(const struct flow *flow)
{
    return flow->out.len - flow->sent;
}

int flow_write(struct flow *flow, struct str bytes, struct err *err)
{
    assert(!flow->is_finished);
    if (flow_unsent(flow) + bytes.len > FLOW_MAX)
        return err_set(err, ERR_TOO_LARGE, "the client does not read; %zu bytes are waiting",
                       flow_unsent(flow));
    if (flow->sent > 0 && flow->sent >= flow->out.len / 2) {
        buf_consume(&flow->out, flow->sent);
        flow->sent = 0;
    }
    buf_put(&flow->out, bytes);
    http_resume(flow->request);
    return 0;
}

bool flow_is_full(const struct flow *flow)
{
    bool full = flow_unsent(flow) >= FLOW_HIGH_WATER;
    ((struct flow *)flow)->was_full |= full;
    return full;
}

void flow_finish(struct flow *flow)
{
    flow->is_finished = true;
    http_resume(flow->request);
}

void flow_break(struct flow *flow)
{
    flow->is_broken = true;
    http_resume(flow->request);
}

size_t flow_take(struct flow *flow, char *out, size_t max)
{
    size_t count = MIN(flow_unsent(flow), max);
    if (count > 0)
        memcpy(out, flow->out.ptr + flow->sent, count);
    flow->sent += count;
    if (flow->sent == flow->out.len) {
        flow->sent = 0;
        buf_clear(&flow->out);
    }
    if (flow->was_full && flow_unsent(flow) <= FLOW_LOW_WATER) {
        flow->was_full = false;
        if (flow->calls->on_drain != NULL && !flow->is_finished)
            flow->calls->on_drain(flow->ctx);
    }
    return count;
}

bool flow_is_done(const struct flow *flow)
{
    return flow->is_finished && flow_unsent(flow) == 0;
}

bool flow_is_broken(const struct flow *flow)
{
    return flow->is_broken;
}

int64_t flow_length(const struct flow *flow)
{
    return flow->length;
}

void flow_stop(struct flow *flow, bool is_last)
{
    if (flow->calls->on_stop != NULL && !flow->is_finished)
        flow->calls->on_stop(flow->ctx, is_last);
}

struct flow *flow_free(struct flow *flow)
{
    if (flow == NULL)
        return NULL;
    flow->calls->on_closed(flow->ctx);
    buf_done(&flow->out);
    free(flow);
    return NULL;
}
