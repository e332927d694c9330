/* /v1/events: what happens, as it happens. */

#include "api/http/events.h"
#include "api/v1/v1.h"

struct tail {
    struct events *events;
    struct feed_reader *reader;
};

static void events_on_drain(void *ctx)
{
    struct tail *tail = ctx;
    if (tail->reader != NULL)
        feed_reader_resume(tail->reader);
}

static void events_on_closed(void *ctx)
{
    struct tail *tail = ctx;
    tail->reader = feed_reader_free(tail->reader);
    free(tail);
}

static const struct events_calls events_calls = {events_on_drain, events_on_closed};

static void events_on_event(void *ctx, const struct event *event)
{
    struct tail *tail = ctx;
    char id[24];
    int len = snprintf(id, sizeof id, "%llu", (unsigned long long)event->seq);
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    v1_put_date(&out, "date", event->date_ms);
    json_key(&out, "id"), json_put_str(&out, event->id);
    v1_put_str(&out, "sandbox", event->sandbox);
    v1_put_str(&out, "state", event->state);
    v1_put_str(&out, "detail", event->detail);
    json_end_object(&out);
    events_put(tail->events, feed_event_name(event->kind), str_n(id, (size_t)len), buf_str(&data));
    if (events_is_full(tail->events))
        feed_reader_pause(tail->reader);
}

static void events_on_end(void *ctx, const struct err *why)
{
    struct tail *tail = ctx;
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    json_key(&out, "reason"), json_put_cstr(&out, why == NULL ? "the end" : why->msg);
    json_end_object(&out);
    events_put(tail->events, "end", (struct str){0}, buf_str(&data));
    events_end(tail->events);
}

static const struct feed_calls feed_calls = {events_on_event, events_on_end};

static void feed(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str last, sandbox = {0};
    int64_t after = -1;
    struct engine_caller caller = request_caller(request);
    (void)request_query(request, "sandbox", &sandbox);
    if (events_last_id(request, &last) && !str_to_i64(last, 0, INT64_MAX, &after)) {
        (void)err_set(&err, ERR_INVALID, "Last-Event-ID must be an event id of this stream");
        reply_error(request, &err);
        return;
    }
    struct tail *tail = mem_alloc(sizeof *tail);
    if (engine_feed_open(api->engine, &caller, sandbox, after < 0 ? UINT64_MAX : (uint64_t)after,
                         &feed_calls, tail, &tail->reader, &err) < 0) {
        free(tail);
        reply_error(request, &err);
        return;
    }
    tail->events = events_new(request, &events_calls, tail);
}

/* clang-format off */
static const struct route_query feed_query[] = {
    {"sandbox", JSON({"type": "string"}), "Only events of this sandbox"},
    {"after", JSON({"type": "string"}), "Same as Last-Event-ID; 0 for all stored events"},
    {0},
};

const struct route v1_event_routes[] = {
    {"GET", "/v1/events", feed, "Stream events", SCOPE_READ, "events",
     .details = "New events as they happen: sandbox.created, sandbox.state, sandbox.expiring (one minute before timeoutMs), command.started, command.ended, session.active, volume.expired, snapshot.ready, approval.requested, approval.decided, docs.ready, docs.failed, docs.vectors (all vectors of the tenant's documents are computed) and others. Events of documents of the configuration go to every tenant.",
     .query = feed_query, .gives = FORM_EVENTS, .errors = E(NOT_FOUND),
     .example = "?after=0 --max-time 1 -N"},
    {0},
};
/* clang-format on */
