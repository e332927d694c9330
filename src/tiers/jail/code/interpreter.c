/* The process of an interpreter: started in the jail, its line and its output on the loop, its end.
 */

#include "tiers/jail/code/interpreter.h"

#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/env.h"
#include "engine/network.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "jail/client/jail_fork.h"
#include "runtime/runtimes.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/spare.h"
#include "tiers/jail/warden.h"

enum { TAKEN_AT_ONCE = 64 }; /* events, before others on the loop have their turn */

/* --- Its line and its output --- */

static void set_watches(struct context *context)
{
    bool wanted = runs_want_output(context);
    int line = (context->line == LINE_GONE ? 0 : WATCH_READ) |
               (interpreter_wants_write(context->interpreter) ? WATCH_WRITE : 0);
    int fds[3];
    interpreter_fds(context->interpreter, fds);
    for (int i = 0; i < 3; i++) {
        if (context->watches[i] != NULL && fds[i] < 0)
            context->watches[i] = watch_free(context->watches[i]);
        if (context->watches[i] != NULL)
            watch_set(context->watches[i], !wanted ? 0 : i == 0 ? line : WATCH_READ);
    }
}

static void pump_again(struct loop_task *task)
{
    struct context *context = CONTAINER_OF(task, struct context, again);
    context->is_posted = false;
    if (context_release(context))
        context_pump(context);
}

static void on_watch(void *ctx, UNUSED int events)
{
    context_pump(ctx);
}

/* A closed pipe must not stay watched, because its number may be reused: interpreter_next closes a
 * pipe at the end of its stream, so the watch is removed first. */
static bool take(struct context *context, struct interpreter_event *event)
{
    bool is_there = interpreter_next(context->interpreter, event);
    int fds[3];
    interpreter_fds(context->interpreter, fds);
    for (int i = 0; i < 3; i++)
        if (fds[i] < 0)
            context->watches[i] = watch_free(context->watches[i]);
    return is_there;
}

void context_pump(struct context *context)
{
    struct interpreter_event event;
    size_t count = 0;
    if (context->is_pumping)
        return;
    hold_take(&context->hold);
    context->is_pumping = true;
    while (!context->hold.is_freed && context->interpreter != NULL && runs_want_output(context) &&
           count < TAKEN_AT_ONCE && take(context, &event)) {
        count++;
        if (event.type == INTERPRETER_READY) {
            context_set_line(context, LINE_READY);
            live_on_ready(context, &event);
        } else {
            live_on_word(context, &event);
        }
        if (event.type == INTERPRETER_COPIED) {
            live_on_copied(context, &event);
        } else if (event.type == INTERPRETER_QUIESCED) {
            quiesce_on_answer(context, event.ok);
        } else if (event.type == INTERPRETER_GONE) {
            /* One that cannot be spoken to is of no use, though it live. */
            context_set_line(context, LINE_GONE);
            context_kill(context);
        } else {
            runs_on_event(context, &event);
        }
    }
    context->is_pumping = false;
    if (!context_release(context) || context->interpreter == NULL)
        return;
    context_assert(context);
    set_watches(context);
    if (count == TAKEN_AT_ONCE && !context->is_posted) {
        context->is_posted = true;
        hold_take(&context->hold); /* until pump_again */
        loop_post(context->place->provider_loop, &context->again);
    }
}

/* --- Its end --- */

static void close_inner(struct context *context)
{
    for (int i = 0; i < 3; i++)
        fd_close(&context->inner[i]);
}

void context_lose(struct context *context, enum loss_reason reason)
{
    const struct provider_host *host = context->place->provider->host;
    if (!context->has_state)
        return;
    context->has_state = false;
    host->on_state_lost(host->engine, str_of(context->place->id), context->id, reason);
}

void context_drop_interpreter(struct context *context)
{
    close_inner(context);
    if (context->interpreter == NULL)
        return;
    if (context->process == PROCESS_ASKED || context->process == PROCESS_STARTED) {
        context_kill(context);
        place_remove(context->place, &context->op);
    }
    for (int i = 0; i < 3; i++)
        context->watches[i] = watch_free(context->watches[i]);
    context->interpreter = interpreter_free(context->interpreter);
    context_set_process(context, PROCESS_NONE);
    context_set_line(context, LINE_NONE);
    context->is_killed = false;
    context->run_count = 0;
    live_on_death(context);
    quiesce_on_death(context);
    context_assert(context);
}

static void context_destroy(struct context *context)
{
    excerpt_done(&context->late[0]);
    excerpt_done(&context->late[1]);
    arena_done(&context->arena);
    free(context);
}

bool context_release(struct context *context)
{
    bool is_there = !context->hold.is_freed;
    if (hold_release(&context->hold))
        context_destroy(context);
    return is_there;
}

void context_free(struct context *context)
{
    context_drop_interpreter(context);
    context->timer = timer_free(context->timer);
    context->place = NULL;
    if (hold_end(&context->hold))
        context_destroy(context);
}

void context_signal(struct context *context, int signo)
{
    struct err err = {0};
    uint32_t ignored = 0;
    if (context->process != PROCESS_STARTED)
        return;
    if (jail_ask_signal(context->place->jail, context->op.id, signo, &ignored, &err) < 0)
        log_debug("interpreter.signal", LOG_ID("sandbox", str_of(context->place->id)),
                  LOG_STR("error", err.msg));
    place_watch(context->place);
}

static void on_killed(struct warden_request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    AUTO_MEM char *sandbox = request->ctx;
    if (why != NULL)
        log_debug("interpreter.kill", LOG_ID("sandbox", str_of(sandbox)),
                  LOG_STR("error", why->msg));
}

void context_kill(struct context *context)
{
    struct err err = {0};
    uint32_t number = 0;
    struct provider *provider = context->place->provider;
    context->is_killed = true;
    context_signal(context, SIGKILL);
    /* The rest of its family, wherever it has gone. */
    if (context->process == PROCESS_STARTED && provider->warden != NULL &&
        jail_ask_kill(context->place->jail, context->op.id, &number, &err) == 0)
        (void)tier_warden_asked(provider, number, on_killed, place_copy_id(context->place));
}

/* The process is gone; its last output must still be read. */
static void on_exited(struct context *context, int signo)
{
    struct interpreter_event event;
    context->signal = signo;
    context_set_process(context, PROCESS_ENDED);
    place_remove(context->place, &context->op);
    for (size_t i = 0; i < TAKEN_AT_ONCE && context->interpreter != NULL && take(context, &event);
         i++) {
        live_on_word(context, &event);
        if (event.type != INTERPRETER_GONE)
            runs_on_event(context, &event);
    }
    if (!context->hold.is_freed)
        runs_on_death(context, NULL);
}

static int ask_start(struct context *context, bool is_fork, struct err *err);

/* After a refused fork: as a fork of the plain zygote, else from its executable. */
static bool start_otherwise(struct context *context, struct err *err)
{
    struct place *place = context->place;
    const struct provider_host *host = place->provider->host;
    if (!context->is_fork || context->inner[0] < 0 || context->is_killed || place->is_spare ||
        (err->code != ERR_UNAVAILABLE && err->code != ERR_UNSUPPORTED))
        return false;
    host->on_retry(host->engine);
    bool has_others = err->code == ERR_UNSUPPORTED && place->plan.base == NULL;
    bool is_plain = has_others && !place->forks_plain && context->memory_fd < 0;
    if (is_plain) {
        place->forks_plain = true;
        tier_plain_zygote_want(place->provider, context->runtime);
    }
    return ask_start(context, is_plain, err) == 0;
}

static void interpreter_on_event(struct asked_op *op, const struct jail_event *event,
                                 const struct err *why)
{
    struct context *context = (struct context *)op;
    if (event == NULL) { /* the place has gone */
        context_set_process(context, PROCESS_ENDED);
        runs_on_death(context, why);
    } else if (event->type == JAIL_EVENT_STARTED) {
        context_set_process(context, PROCESS_STARTED);
        close_inner(context);
        fd_close(&context->memory_fd);
        context_assert(context);
        if (context->is_killed)
            context_kill(context);
    } else if (event->type == JAIL_EVENT_REFUSED || event->type == JAIL_EVENT_FAILED) {
        struct err err = event->err;
        context_set_process(context, PROCESS_ENDED);
        place_remove(context->place, op);
        if (!start_otherwise(context, &err))
            runs_on_death(context, &err);
    } else if (event->type == JAIL_EVENT_EXITED) {
        bool was_pumping = context->is_pumping;
        context->is_pumping = true;
        hold_take(&context->hold); /* kept while its last events are reported */
        on_exited(context, event->exit.signal);
        context->is_pumping = was_pumping;
        (void)context_release(context);
    }
}

/* --- Its start --- */

const char **context_env(const struct context *context, struct arena *arena)
{
    static const struct engine_pair ahead = {{RUNTIME_AHEAD, sizeof RUNTIME_AHEAD - 1}, {"1", 1}};
    const struct place *place = context->place;
    struct engine_pairs made = {&ahead, place->is_spare};
    const struct engine_pairs *lists[] = {&place->env, &context->env, &made};
    return env_inside(place->runtime, place->network_in_effect, lists, countof(lists), arena);
}

static bool may_fork(const struct context *context)
{
    return context->place->provider->has_zygote && context->runtime->forks != NULL;
}

static uint32_t zygote_of(const struct context *context)
{
    bool is_plain = context->memory_fd < 0 && context->place->forks_plain;
    return is_plain ? JAIL_ZYGOTE_PLAIN : context->zygote;
}

static const char *const *argv_of(const struct context *context, struct arena *arena)
{
    const struct runtime *runtime = context->runtime;
    size_t count = 0;
    if (runtime->snapshot_option == NULL || !context->place->has_snapshots)
        return runtime->argv;
    while (runtime->argv[count] != NULL)
        count++;
    const char **argv = arena_array(arena, const char *, count + 2);
    for (size_t i = 0; i + 1 < count; i++)
        argv[i] = runtime->argv[i];
    argv[count - 1] = runtime->snapshot_option;
    argv[count] = runtime->argv[count - 1];
    return argv;
}

static int ask_start(struct context *context, bool is_fork, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct place *place = context->place;
    uint32_t id = 0;
    if (context->interpreter == NULL) {
        if (interpreter_open(&context->interpreter, context->inner, err) < 0)
            return -1;
        context_set_line(context, LINE_OPEN);
    }
    context->is_fork = is_fork;
    struct jail_command command = {.argv = argv_of(context, &arena),
                                   .env = context_env(context, &arena),
                                   .cwd = context->cwd.len > 0 ? context->cwd.ptr : NULL,
                                   .memory_fd = MAX(context->memory_fd, 0),
                                   .zygote = zygote_of(context),
                                   .copies_memory = context->memory == MEMORY_READING};
    int asked = is_fork ? jail_ask_fork(place->jail, &command, context->inner, &id, err)
                        : jail_ask_start(place->jail, &command, context->inner, &id, err);
    if (asked < 0)
        return -1;
    context_set_process(context, PROCESS_ASKED);
    place_add(place, &context->op, id);
    place_watch(place);
    return 0;
}

int context_start(struct context *context, struct err *err)
{
    int fds[3];
    context->op.on_event = interpreter_on_event;
    context->again.run = pump_again;
    context->signal = 0;
    tier_zygote_want(context->place->provider, context->runtime);
    if (!context->place->is_spare)
        tier_spares_started(context->place->provider, context->runtime);
    if (ask_start(context, may_fork(context), err) < 0) {
        context_drop_interpreter(context);
        return -1;
    }
    interpreter_fds(context->interpreter, fds);
    for (int i = 0; i < 3; i++)
        if (watch_new(context->place->provider_loop, fds[i], WATCH_READ, on_watch, context,
                      &context->watches[i], err) < 0) {
            context_drop_interpreter(context);
            return -1;
        }
    context_assert(context);
    return 0;
}
