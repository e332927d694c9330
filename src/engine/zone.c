/* Zones of the configuration: a confined worker for each, and the questions that wait for it.
 *
 * A worker is ABSENT, RUNNING or ENDING. start() makes it RUNNING; a long time without a question
 * makes it ENDING (its input is closed); its exit makes it ABSENT. One question is with it at a
 * time, the first of the queue. */

#include "engine/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "files/zones/zones.h"
#include "io/proc.h"
#include "io/stream.h"

enum {
    ASKS_MAX = 32,            /* that wait for one worker */
    ASK_BYTES_MAX = 64 << 20, /* of them */
    ANSWER_MAX = 33 << 20,    /* the largest file and its line */
    ANSWER_MS = 60000,        /* then the worker is ended */
    IDLE_MS = 60000,          /* the same without a question */
    PIECE_BYTES = 256 << 10,
};

static_assert(ZONE_FILE_MAX == (int)ZONES_FILE_MAX, "callers see the worker's limit");

struct zone_ask {
    struct loop_task task;
    struct engine *engine;
    struct zone_ask *next;
    struct buf question;
    zone_done *done;
    void *ctx;
    struct err err;
};

struct zone_worker {
    struct engine *engine;
    const struct config_zones *config;
    struct proc *proc;        /* NULL: ABSENT */
    struct stream *to, *from; /* `to` NULL while there is a proc: ENDING */
    int complaints;           /* its standard error; -1 if it has no pipe */
    struct timer *timer;      /* for an answer, or of idleness */
    struct zone_ask *first, **last;
    size_t count, bytes, sent; /* waiting; theirs; of the first one's */
    struct buf in;
    bool is_late;
};

static void zone_begin(struct zone_worker *worker);

/* --- Questions --- */

static void ask_end(struct zone_ask *ask, struct buf *answer, const struct err *why)
{
    struct engine *engine = ask->engine;
    ask->done(ask->ctx, why == NULL ? answer : NULL, why);
    buf_done(&ask->question);
    free(ask);
    engine->answers--;
    loop_release(engine->loop);
}

static void fail_later(struct loop_task *task)
{
    struct zone_ask *ask = (struct zone_ask *)task;
    ask_end(ask, NULL, &ask->err);
}

static void ask_fail(struct zone_ask *ask, const struct err *why)
{
    ask->err = *why;
    ask->task.run = fail_later;
    loop_post(ask->engine->loop, &ask->task);
}

static struct zone_ask *take_first(struct zone_worker *worker)
{
    struct zone_ask *ask = worker->first;
    worker->first = ask->next;
    if (worker->first == NULL)
        worker->last = &worker->first;
    worker->count--;
    worker->bytes -= ask->question.len;
    worker->sent = 0;
    return ask;
}

static void fail_all(struct zone_worker *worker, const struct err *why)
{
    while (worker->first != NULL)
        ask_fail(take_first(worker), why);
}

/* --- The worker --- */

static void drop_streams(struct zone_worker *worker)
{
    worker->to = stream_free(worker->to);
    worker->from = stream_free(worker->from);
    buf_done(&worker->in);
    timer_clear(worker->timer);
}

/* What it said of its end, one line; it has ended, so reading does not wait for long. */
static void read_complaints(struct zone_worker *worker, char *out, size_t size)
{
    struct str start = STR("sandglass: ");
    ssize_t count = worker->complaints < 0 ? -1 : read(worker->complaints, out, size - 1);
    fd_close(&worker->complaints);
    out[count < 0 ? 0 : count] = '\0';
    struct str text = str_of(out);
    text = str_slice(text, 0, str_find_char(text, '\n'));
    if (str_starts(text, start))
        text = str_slice(text, start.len, text.len);
    memmove(out, text.ptr, text.len);
    out[text.len] = '\0';
}

static void on_exit_(void *ctx, UNUSED struct proc_exit how)
{
    struct zone_worker *worker = ctx;
    char text[ERR_MSG_MAX / 2];
    struct err err = {0};
    bool was_ending = worker->to == NULL && !worker->is_late;
    drop_streams(worker);
    worker->proc = proc_free(worker->proc);
    read_complaints(worker, text, sizeof text);
    if (was_ending && worker->first != NULL) {
        zone_begin(worker);
        return;
    }
    if (worker->first == NULL)
        return;
    if (worker->is_late)
        (void)err_set(&err, ERR_TIMEOUT, "the worker of zone set '%.*s' did not answer in time",
                      STR_ARG(worker->config->name));
    else
        (void)err_set(&err, ERR_UNAVAILABLE, "the worker of zone set '%.*s' has ended%s%s",
                      STR_ARG(worker->config->name), text[0] == '\0' ? "" : ": ", text);
    log_warn("zones.ended", LOG_VIEW("zones", worker->config->name), LOG_STR("error", err.msg));
    fail_all(worker, &err);
}

static void zone_on_time(void *ctx)
{
    struct zone_worker *worker = ctx;
    worker->is_late = worker->first != NULL;
    if (worker->is_late)
        proc_kill(worker->proc, SIGKILL);
    else
        worker->to = stream_free(worker->to); /* the end of its input is its end */
}

/* The first question, as far as there is room. */
static void zone_push(struct zone_worker *worker)
{
    struct err err = {0};
    while (worker->to != NULL && worker->first != NULL && !stream_is_full(worker->to)) {
        struct str question = buf_str(&worker->first->question);
        struct str piece = str_slice(question, worker->sent, worker->sent + PIECE_BYTES);
        if (piece.len == 0 || stream_write(worker->to, piece, &err) < 0)
            return; /* where it cannot be written, the exit follows */
        worker->sent += piece.len;
    }
}

/* "ok BYTES" or "error CODE BYTES". False: it is none. */
static bool parse_head(struct str line, struct str *ret_code, size_t *ret_len)
{
    int64_t len;
    struct str word, rest = line;
    *ret_code = (struct str){0};
    if (!str_split(&rest, ' ', &word))
        return false;
    if (str_eq(word, STR("error")) && !str_split(&rest, ' ', ret_code))
        return false;
    if (!str_to_i64(rest, 0, ANSWER_MAX, &len))
        return false;
    *ret_len = (size_t)len;
    return ret_code->len > 0 || str_eq(word, STR("ok"));
}

static enum err_code zone_code_of(struct str name)
{
    for (unsigned code = 1; code < ERR_COUNT; code++)
        if (str_eq(str_of(err_wire_name((enum err_code)code)), name))
            return (enum err_code)code;
    return ERR_INTERNAL;
}

/* An answer that is there as a whole goes to who asked. */
static bool take_answer(struct zone_worker *worker)
{
    struct str all = buf_str(&worker->in), code;
    size_t end = str_find_char(all, '\n'), len;
    struct err err = {0};
    if (end == all.len || worker->first == NULL)
        return false;
    if (!parse_head(str_slice(all, 0, end), &code, &len)) {
        proc_kill(worker->proc, SIGKILL);
        return false;
    }
    if (all.len - end - 1 < len)
        return false;
    enum err_code failed = code.len > 0 ? zone_code_of(code) : ERR_NONE;
    buf_consume(&worker->in, end + 1);
    struct buf answer = worker->in; /* one question, one answer: nothing is behind it */
    worker->in = buf_with_limit(ANSWER_MAX);
    struct zone_ask *ask = take_first(worker);
    timer_set(worker->timer, IDLE_MS, 0);
    if (failed != ERR_NONE)
        (void)err_set(&err, failed, "%.*s", STR_ARG(buf_str(&answer)));
    ask_end(ask, &answer, failed == ERR_NONE ? NULL : &err);
    buf_done(&answer);
    return true;
}

static void zone_on_data(void *ctx, struct buf *in)
{
    struct zone_worker *worker = ctx;
    struct err err = {0};
    if (buf_append(&worker->in, buf_str(in), &err) < 0)
        proc_kill(worker->proc, SIGKILL);
    buf_consume(in, in->len);
    if (take_answer(worker))
        zone_begin(worker);
}

static void on_none(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void zone_on_drain(void *ctx)
{
    zone_push(ctx);
}

static const struct stream_calls calls = {zone_on_data, on_none, zone_on_drain, on_none};

static int start(struct zone_worker *worker, struct err *err)
{
    const struct config_zones *config = worker->config;
    struct engine *engine = worker->engine;
    AUTO_BUF struct buf root = {0}, workspace = {0}, cache = {0};
    const char *argv[12] = {"sandglass", "fs"};
    size_t count = 2;
    buf_put(&root, config->root);
    buf_printf(&workspace, "workspace=%.*s", STR_ARG(config->workspace));
    buf_printf(&cache, "cache=%.*s", STR_ARG(config->cache));
    if (config->root.len > 0)
        argv[count++] = "--root", argv[count++] = buf_cstr(&root);
    if (config->workspace.len > 0)
        argv[count++] = "--direct", argv[count++] = buf_cstr(&workspace);
    if (config->cache.len > 0)
        argv[count++] = "--direct", argv[count++] = buf_cstr(&cache);
    if (config->read_only)
        argv[count++] = "--read-only";
    argv[count] = "serve";
    struct proc_options options = {.program = engine->host.program,
                                   .argv = argv,
                                   .cwd = "/",
                                   .in = PROC_PIPE,
                                   .out = PROC_PIPE,
                                   .err = PROC_PIPE,
                                   .new_session = true};
    worker->is_late = false;
    worker->in = buf_with_limit(ANSWER_MAX);
    if (proc_start(engine->loop, &options, on_exit_, worker, &worker->proc, err) < 0)
        return -1;
    worker->complaints = proc_take_pipe(worker->proc, 2);
    AUTO_CLOSE int to = proc_take_pipe(worker->proc, 0);
    AUTO_CLOSE int from = proc_take_pipe(worker->proc, 1);
    if (stream_open(engine->loop, to, &calls, worker, &worker->to, err) < 0)
        return -1;
    (void)fd_take(&to);
    stream_pause(worker->to); /* nothing is to be read there */
    if (stream_open(engine->loop, from, &calls, worker, &worker->from, err) < 0)
        return -1;
    (void)fd_take(&from);
    return 0;
}

/* Sets about the first question. */
static void zone_begin(struct zone_worker *worker)
{
    struct err err = {0};
    if (worker->first == NULL || (worker->proc != NULL && worker->to == NULL))
        return; /* the exit of one that is ending comes back here */
    if (worker->proc == NULL && start(worker, &err) < 0) {
        drop_streams(worker);
        worker->proc = proc_free(worker->proc);
        fd_close(&worker->complaints);
        fail_all(worker, &err);
        return;
    }
    timer_set(worker->timer, ANSWER_MS, 0);
    zone_push(worker);
}

/* --- Verbs --- */

static bool may_use(const struct config_zones *zones, const struct engine_caller *caller)
{
    return caller->is_operator || config_names_tenant(&zones->tenants, caller->tenant);
}

int engine_zone_list(struct engine *engine, const struct engine_caller *caller, struct arena *arena,
                     struct zone_sets *ret_sets, struct err *err)
{
    const struct config *config = engine->config;
    size_t count = 0;
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    struct zone_set *sets = arena_array(arena, struct zone_set, config->zones.len + 1);
    for (size_t i = 0; i < config->zones.len; i++) {
        const struct config_zones *zones = &config->zones.items[i];
        bool has_both = zones->root.len > 0;
        if (may_use(zones, caller))
            sets[count++] = (struct zone_set){.name = zones->name,
                                              .has_workspace = has_both || zones->workspace.len > 0,
                                              .has_cache = has_both || zones->cache.len > 0,
                                              .read_only = zones->read_only};
    }
    *ret_sets = (struct zone_sets){sets, count};
    return 0;
}

static struct zone_worker *find(struct engine *engine, const struct engine_caller *caller,
                                struct str name, struct err *err)
{
    const struct config *config = engine->config;
    if (engine_check_caller(engine, caller, err) < 0)
        return NULL;
    for (size_t i = 0; i < config->zones.len; i++) {
        const struct config_zones *zones = &config->zones.items[i];
        if (!str_eq(zones->name, name) || !may_use(zones, caller))
            continue;
        if (engine->zone_workers == NULL)
            engine->zone_workers = mem_alloc(config->zones.len * sizeof *engine->zone_workers);
        struct zone_worker *worker = &engine->zone_workers[i];
        if (worker->engine == NULL)
            *worker = (struct zone_worker){.engine = engine,
                                           .config = zones,
                                           .complaints = -1,
                                           .last = &worker->first,
                                           .timer = timer_new(engine->loop, zone_on_time, worker)};
        return worker;
    }
    (void)err_set(err, ERR_NOT_FOUND, "no zone set '%.*s'; GET /v1/zones lists them",
                  STR_ARG(name));
    return NULL;
}

void engine_zone_ask(struct engine *engine, const struct engine_caller *caller,
                     const struct zone_question *question, zone_done *done, void *ctx)
{
    loop_assert(engine->loop);
    struct err err = {0};
    struct zone_ask *ask = mem_alloc(sizeof *ask);
    size_t size = question->path.len + question->data.len;
    *ask = (struct zone_ask){.engine = engine, .done = done, .ctx = ctx};
    engine->answers++;
    loop_hold(engine->loop);
    struct zone_worker *worker = find(engine, caller, question->set, &err);
    /* A path that the worker does not accept would end the worker, for all requests that wait for
     * it. */
    if (worker != NULL && question->path.len >= FILES_PATH_MAX)
        (void)err_set(&err, ERR_INVALID, "the path has %zu bytes; the limit is %d",
                      question->path.len, FILES_PATH_MAX - 1);
    else if (worker != NULL && (worker->count == ASKS_MAX || worker->bytes + size > ASK_BYTES_MAX))
        (void)err_set(&err, ERR_BUSY, "too many requests wait for zone set '%.*s'; try again later",
                      STR_ARG(question->set));
    if (worker == NULL || err.code != ERR_NONE) {
        ask_fail(ask, &err);
        return;
    }
    ask->question = buf_with_limit(size + 128);
    buf_printf(&ask->question, "%s %zu %zu\n", question->verb, question->path.len,
               question->data.len);
    buf_put(&ask->question, question->path);
    buf_put(&ask->question, question->data);
    *worker->last = ask;
    worker->last = &ask->next;
    worker->bytes += ask->question.len;
    if (worker->count++ == 0)
        zone_begin(worker);
}

void zone_done_all(struct engine *engine)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the server stopped");
    for (size_t i = 0; engine->zone_workers != NULL && i < engine->config->zones.len; i++) {
        struct zone_worker *worker = &engine->zone_workers[i];
        if (worker->engine == NULL)
            continue;
        drop_streams(worker);
        worker->proc = proc_free(worker->proc);
        worker->timer = timer_free(worker->timer);
        fd_close(&worker->complaints);
        fail_all(worker, &err);
    }
    free(engine->zone_workers);
    engine->zone_workers = NULL;
}
