/* The event feed: subscribers get past events from the store and new ones as they happen. */

#include "engine/feed.h"

#include "base/clock.h"
#include "base/hold.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "store/store.h"

enum { PAGE_EVENTS = 256 };

static const char *const kind_names[] = {
#define X(name, wire) wire,
    EVENT_MAP(X)
#undef X
};

const char *feed_event_name(enum event_kind kind)
{
    assert(kind < EVENT_KIND_COUNT);
    return kind_names[kind];
}

static enum event_kind feed_kind_of(struct str name)
{
    for (size_t i = 0; i < countof(kind_names); i++)
        if (str_eq(name, str_of(kind_names[i])))
            return (enum event_kind)i;
    return EVENT_KIND_COUNT;
}

/* A reader is behind (it reads pages from the store) or abreast (it is called for each event). One
 * that pauses falls behind and catches up. */
struct feed_reader {
    struct hold hold; /* during its call-back, and by a read of the store */
    struct feed_reader *next;
    struct engine *engine;
    struct feed_calls calls;
    void *ctx;
    char *tenant, *sandbox;
    uint64_t target; /* the newest when the store was asked */
    uint64_t seen;   /* the last event that was told, or passed over */
    bool is_paused, is_reading;
};

static void read_on(struct feed_reader *reader);

static bool is_abreast(const struct feed_reader *reader)
{
    return reader->seen == reader->engine->last_seq;
}

static void feed_tell(struct feed_reader *reader, const struct event *event)
{
    reader->seen = event->seq;
    if ((str_eq(event->tenant, str_of(reader->tenant)) ||
         str_eq(event->tenant, STR(EVERY_TENANT))) &&
        (reader->sandbox[0] == '\0' || str_eq(event->sandbox, str_of(reader->sandbox))))
        reader->calls.on_event(reader->ctx, event);
}

static void reader_done(struct feed_reader *reader)
{
    struct feed_reader **at = &reader->engine->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    free(reader->tenant);
    free(reader->sandbox);
    free(reader);
}

/* Reading or telling is over. False: it was freed meanwhile. */
static bool feed_let_go(struct feed_reader *reader)
{
    bool is_there = !reader->hold.is_freed;
    reader->is_reading = false;
    if (hold_release(&reader->hold))
        reader_done(reader);
    return is_there;
}

/* Searches from the start each time, because a call-back may free any reader. A reader that has
 * been called is ahead. */
static struct feed_reader *find_abreast(const struct engine *engine)
{
    for (struct feed_reader *reader = engine->readers; reader != NULL; reader = reader->next)
        if (!reader->hold.is_freed && !reader->is_paused && !reader->is_reading &&
            is_abreast(reader))
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
                                                 .kind = str_of(feed_event_name(kind)),
                                                 .tenant = tenant,
                                                 .id = id,
                                                 .sandbox = sandbox,
                                                 .state = event.state,
                                                 .detail = event.detail});
    for (struct feed_reader *reader; (reader = find_abreast(engine)) != NULL;) {
        hold_take(&reader->hold);
        reader->is_reading = true;
        feed_tell(reader, &event);
        (void)feed_let_go(reader);
    }
    engine->last_seq = event.seq;
}

static void feed_on_page(void *ctx, const struct store_event *events, size_t count,
                         const struct err *why)
{
    struct feed_reader *reader = ctx;
    for (size_t i = 0; i < count && !reader->hold.is_freed && !reader->is_paused; i++)
        feed_tell(reader, &(struct event){.seq = events[i].seq,
                                          .date_ms = events[i].date_ms,
                                          .kind = feed_kind_of(events[i].kind),
                                          .tenant = events[i].tenant,
                                          .id = events[i].id,
                                          .sandbox = events[i].sandbox,
                                          .state = events[i].state,
                                          .detail = events[i].detail});
    if (!feed_let_go(reader))
        return;
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
    hold_take(&reader->hold); /* until on_page */
    reader->is_reading = true;
    reader->target = reader->engine->last_seq;
    store_read_events(reader->engine->store, str_of(reader->tenant), str_of(reader->sandbox),
                      reader->seen, PAGE_EVENTS, feed_on_page, reader);
}

int engine_feed_open(struct engine *engine, const struct engine_caller *caller, struct str sandbox,
                     uint64_t after, const struct feed_calls *calls, void *ctx,
                     struct feed_reader **ret_reader, struct err *err)
{
    loop_assert(engine->loop);
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    /* Events of one that is deleted can be read by its id. */
    struct err unknown = {0};
    const struct sandbox *named =
        sandbox.len > 0 ? sandbox_find(engine, caller, sandbox, &unknown) : NULL;
    if (named != NULL)
        sandbox = named->info.id;
    else if (sandbox.len > 0 && (unknown.code == ERR_CONFLICT || !id_is_valid(sandbox))) {
        *err = unknown;
        return -1;
    }
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

bool feed_is_followed(const struct engine *engine, struct str sandbox)
{
    for (const struct feed_reader *reader = engine->readers; reader != NULL; reader = reader->next)
        if (!reader->hold.is_freed && str_eq(str_of(reader->sandbox), sandbox))
            return true;
    return false;
}

/* Its idle time begins when the last one who followed it has gone. */
static void touch_followed(const struct feed_reader *reader)
{
    struct sandbox *sandbox = reader->sandbox[0] == '\0'
                                  ? NULL
                                  : map_get(&reader->engine->sandboxes, str_of(reader->sandbox));
    if (sandbox != NULL)
        sandbox_touch(sandbox);
}

struct feed_reader *feed_reader_free(struct feed_reader *reader)
{
    if (reader == NULL)
        return NULL;
    touch_followed(reader);
    if (hold_end(&reader->hold))
        reader_done(reader);
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

/* The engine closes: ends all readers that are left. */
void feed_close(struct engine *engine)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    struct feed_reader *after = NULL;
    for (struct feed_reader *reader = engine->readers; reader != NULL; reader = after) {
        after = reader->next;
        if (!reader->hold.is_freed)
            reader->calls.on_end(reader->ctx, &err);
    }
}
