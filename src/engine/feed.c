/* What happens, told to whoever listens: from the store what is past, as it comes what is new. */

#include "engine/feed.h"

#include "base/clock.h"
#include "engine/internal.h"

enum { PAGE_EVENTS = 256 };

static const char *const kind_names[] = {
#define X(name, wire) wire,
    EVENT_MAP(X)
#undef X
};

const char *event_kind_name(enum event_kind kind)
{
    assert(kind < EVENT_KIND_COUNT);
    return kind_names[kind];
}

static enum event_kind kind_of(struct str name)
{
    for (size_t i = 0; i < countof(kind_names); i++)
        if (str_eq(name, str_of(kind_names[i])))
            return (enum event_kind)i;
    return EVENT_KIND_COUNT;
}

/* A reader is behind (it asks the store, a page at a time) or abreast (it is told as things
 * happen). One that pauses falls behind and catches up. */
struct feed_reader {
    struct feed_reader *next;
    struct engine *engine;
    struct feed_calls calls;
    void *ctx;
    char *tenant, *sandbox;
    uint64_t target; /* the newest when the store was asked */
    uint64_t seen;   /* the last event that was told, or passed over */
    bool is_paused, is_reading, is_freed;
};

static void read_on(struct feed_reader *reader);

static bool is_abreast(const struct feed_reader *reader)
{
    return reader->seen == reader->engine->last_seq;
}

static void tell(struct feed_reader *reader, const struct event *event)
{
    reader->seen = event->seq;
    if (str_eq(event->tenant, str_of(reader->tenant)) &&
        (reader->sandbox[0] == '\0' || str_eq(event->sandbox, str_of(reader->sandbox))))
        reader->calls.on_event(reader->ctx, event);
}

/* Looked for anew each time: whoever is told may free any reader. One that was told is ahead. */
static struct feed_reader *find_abreast(const struct engine *engine)
{
    for (struct feed_reader *reader = engine->readers; reader != NULL; reader = reader->next)
        if (!reader->is_freed && !reader->is_paused && !reader->is_reading && is_abreast(reader))
            return reader;
    return NULL;
}

void feed_publish(struct engine *engine, struct store_batch *batch, enum event_kind kind,
                  struct str tenant, struct str id, struct str sandbox, const char *state,
                  const char *detail)
{
    struct event event = {
        .seq = engine->last_seq + 1,
        .date_ms = clock_date_ms(),
        .kind = kind,
        .tenant = tenant,
        .id = id,
        .sandbox = sandbox,
        .state = str_of(state),
        .detail = str_of(detail),
    };
    store_put_event(batch, &(struct store_event){.seq = event.seq,
                                                 .date_ms = event.date_ms,
                                                 .kind = str_of(event_kind_name(kind)),
                                                 .tenant = tenant,
                                                 .id = id,
                                                 .sandbox = sandbox,
                                                 .state = event.state,
                                                 .detail = event.detail});
    for (struct feed_reader *reader; (reader = find_abreast(engine)) != NULL;) {
        reader->is_reading = true;
        tell(reader, &event);
        reader->is_reading = false;
        if (reader->is_freed)
            (void)feed_reader_free(reader);
    }
    engine->last_seq = event.seq;
}

static void on_page(void *ctx, const struct store_event *events, size_t count,
                    const struct err *why)
{
    struct feed_reader *reader = ctx;
    for (size_t i = 0; i < count && !reader->is_freed && !reader->is_paused; i++)
        tell(reader, &(struct event){.seq = events[i].seq,
                                     .date_ms = events[i].date_ms,
                                     .kind = kind_of(events[i].kind),
                                     .tenant = events[i].tenant,
                                     .id = events[i].id,
                                     .sandbox = events[i].sandbox,
                                     .state = events[i].state,
                                     .detail = events[i].detail});
    reader->is_reading = false;
    if (reader->is_freed) {
        (void)feed_reader_free(reader);
        return;
    }
    if (why != NULL) {
        reader->calls.on_end(reader->ctx, why);
        return;
    }
    if (reader->is_paused)
        return;
    /* Nothing more of its own: what others did meanwhile is passed over. */
    if (count < PAGE_EVENTS)
        reader->seen = MAX(reader->seen, reader->target);
    read_on(reader);
}

static void read_on(struct feed_reader *reader)
{
    if (reader->is_reading || reader->is_paused || is_abreast(reader))
        return;
    reader->is_reading = true;
    reader->target = reader->engine->last_seq;
    store_read_events(reader->engine->store, str_of(reader->tenant), str_of(reader->sandbox),
                      reader->seen, PAGE_EVENTS, on_page, reader);
}

int engine_feed_open(struct engine *engine, const struct engine_caller *caller, struct str sandbox,
                     uint64_t after, const struct feed_calls *calls, void *ctx,
                     struct feed_reader **ret_reader, struct err *err)
{
    loop_assert(engine->loop);
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    if (sandbox.len > 0 && !id_is_valid(sandbox))
        return err_set(err, ERR_NOT_FOUND, "no such sandbox");
    struct feed_reader *reader = mem_alloc(sizeof *reader);
    reader->engine = engine;
    reader->calls = *calls;
    reader->ctx = ctx;
    AUTO_BUF struct buf text = {0};
    buf_put(&text, caller->tenant);
    reader->tenant = mem_dup_cstr(buf_cstr(&text));
    buf_clear(&text);
    buf_put(&text, sandbox);
    reader->sandbox = mem_dup_cstr(buf_cstr(&text));
    reader->seen = MIN(after, engine->last_seq);
    reader->next = engine->readers;
    engine->readers = reader;
    read_on(reader);
    *ret_reader = reader;
    return 0;
}

struct feed_reader *feed_reader_free(struct feed_reader *reader)
{
    if (reader == NULL)
        return NULL;
    if (reader->is_reading) { /* whoever reads for it finds out */
        reader->is_freed = true;
        return NULL;
    }
    struct feed_reader **at = &reader->engine->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    free(reader->tenant);
    free(reader->sandbox);
    free(reader);
    return NULL;
}

void feed_reader_pause(struct feed_reader *reader)
{
    reader->is_paused = true;
}

void feed_reader_resume(struct feed_reader *reader)
{
    reader->is_paused = false;
    read_on(reader);
}

/* The engine goes: whoever still listens hears it. */
void feed_close(struct engine *engine)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the server stops");
    struct feed_reader *after = NULL;
    for (struct feed_reader *reader = engine->readers; reader != NULL; reader = after) {
        after = reader->next;
        if (!reader->is_freed)
            reader->calls.on_end(reader->ctx, &err);
    }
}
