#include "api/http/events.h"

#include "api/http/flow.h"
#include "api/http/http.h"
#include "base/err.h"
#include "base/format/json.h"

struct events {
    const struct events_calls *calls;
    void *ctx;
    struct flow *flow;
    struct timer *heartbeat;
    bool is_ndjson, is_ended;
    bool is_stopped; /* ended by the server: its writer may not know yet */
};

bool events_are_asked_for(const struct request *request)
{
    return request_accepts(request, "Accept", "text/event-stream") ||
           request_accepts(request, "Accept", "application/x-ndjson");
}

bool events_last_id(struct request *request, struct str *ret_id)
{
    struct str id = request_header(request, "Last-Event-ID");
    if (id.len > 0) {
        *ret_id = id;
        return true;
    }
    return request_query(request, "after", ret_id);
}

static void write_or_cut(struct events *events, struct str text)
{
    struct err err;
    if (flow_write(events->flow, text, &err) < 0)
        flow_break(events->flow);
}

static void beat(void *ctx)
{
    struct events *events = ctx;
    if (!events->is_ended && flow_unsent(events->flow) == 0)
        write_or_cut(events, events->is_ndjson ? STR("{\"event\":\"ping\"}\n") : STR(": ping\n\n"));
}

static void on_drain(void *ctx)
{
    struct events *events = ctx;
    if (events->calls != NULL && events->calls->on_drain != NULL && !events->is_ended)
        events->calls->on_drain(events->ctx);
}

static void on_closed(void *ctx)
{
    struct events *events = ctx;
    if (events->calls != NULL)
        events->calls->on_closed(events->ctx);
    events->heartbeat = timer_free(events->heartbeat);
    free(events);
}

static void on_stop(void *ctx, bool is_last)
{
    struct events *events = ctx;
    bool may_go_on = !is_last && events->calls != NULL && events->calls->ends_itself;
    if (events->is_ended || may_go_on)
        return;
    events_put(events, "end", (struct str){0}, STR("{\"reason\":\"the server is stopping\"}"));
    events->is_stopped = true;
    events_end(events);
}

static const struct flow_calls flow_calls = {on_drain, on_closed, on_stop};

struct events *events_new(struct request *request, const struct events_calls *calls, void *ctx)
{
    struct events *events = mem_alloc(sizeof *events);
    events->calls = calls;
    events->ctx = ctx;
    events->is_ndjson = request_accepts(request, "Accept", "application/x-ndjson");
    /* A proxy that collects answers would hold events back. */
    reply_header(request, "X-Accel-Buffering", STR("no"));
    const char *type = events->is_ndjson ? "application/x-ndjson" : "text/event-stream";
    events->flow = reply_flow(request, 200, type, -1, &flow_calls, events);
    events->heartbeat = timer_new(http_loop(request->http), beat, events);
    timer_set(events->heartbeat, EVENTS_HEARTBEAT_MS, EVENTS_HEARTBEAT_MS);
    return events;
}

static void events_put_line(struct buf *out, const char *type, struct str id, struct str json)
{
    struct json_out line = {.buf = out};
    json_begin_object(&line);
    json_key(&line, "event"), json_put_cstr(&line, type);
    if (id.len > 0)
        json_key(&line, "id"), json_put_str(&line, id);
    json_end_object(&line);
    out->ptr[--out->len] = '\0'; /* the data goes inside, as it is */
    buf_put_cstr(out, ",\"data\":");
    buf_put(out, json);
    buf_put_cstr(out, "}\n");
}

void events_put(struct events *events, const char *type, struct str id, struct str json)
{
    if (events->is_stopped)
        return;
    assert(!events->is_ended);
    AUTO_BUF struct buf text = {0};
    if (events->is_ndjson) {
        events_put_line(&text, type, id, json);
    } else {
        if (id.len > 0)
            buf_printf(&text, "id: %.*s\n", STR_ARG(id));
        buf_printf(&text, "event: %s\ndata: %.*s\n\n", type, STR_ARG(json));
    }
    write_or_cut(events, buf_str(&text));
}

bool events_is_full(const struct events *events)
{
    return flow_is_full(events->flow);
}

void events_end(struct events *events)
{
    events->is_ended = true;
    flow_finish(events->flow);
}

void events_forget(struct events *events)
{
    events->calls = NULL;
    if (!events->is_ended)
        flow_break(events->flow);
}
