/* The process of a kernel: started in the jail, its line and its output on the loop, its end. */

#include "engine/jail_kernel.h"

#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "engine/network.h"
#include "jail/jail_fork.h"

enum { TAKEN_AT_ONCE = 64 }; /* events, before others on the loop have their turn */

/* --- Its line and its output --- */

static void set_watches(struct context *context)
{
    bool wanted = runs_want_output(context);
    int line = (context->is_line_gone ? 0 : WATCH_READ) |
               (kernel_wants_write(context->kernel) ? WATCH_WRITE : 0);
    int fds[3];
    kernel_fds(context->kernel, fds);
    for (int i = 0; i < 3; i++) {
        if (context->watches[i] != NULL && fds[i] < 0)
            context->watches[i] = watch_free(context->watches[i]);
        if (context->watches[i] != NULL)
            watch_set(context->watches[i], !wanted ? 0 : i == 0 ? line : WATCH_READ);
    }
}

static void pump_again(struct loop_task *task)
{
    struct context *context =
        (struct context *)(void *)((char *)task - offsetof(struct context, again));
    context->is_posted = false;
    if (context->is_freed)
        context_free(context);
    else
        context_pump(context);
}

static void on_watch(void *ctx, UNUSED int events)
{
    context_pump(ctx);
}

/* A pipe that is closed must not be watched when its number serves somebody else: kernel_next
 * closes at the end of a stream, so the watch goes first. */
static bool take(struct context *context, struct kernel_event *event)
{
    bool is_there = kernel_next(context->kernel, event);
    int fds[3];
    kernel_fds(context->kernel, fds);
    for (int i = 0; i < 3; i++)
        if (fds[i] < 0)
            context->watches[i] = watch_free(context->watches[i]);
    return is_there;
}

void context_pump(struct context *context)
{
    struct kernel_event event;
    size_t count = 0;
    if (context->is_pumping)
        return;
    context->is_pumping = true;
    while (!context->is_freed && context->kernel != NULL && runs_want_output(context) &&
           count < TAKEN_AT_ONCE && take(context, &event)) {
        count++;
        context->is_ready |= event.type == KERNEL_READY;
        if (event.type == KERNEL_READY)
            live_on_ready(context, &event);
        else
            live_on_word(context, &event);
        if (event.type == KERNEL_COPIED) {
            live_on_copied(context, &event);
        } else if (event.type == KERNEL_GONE) {
            /* One that cannot be spoken to is of no use, though it live. */
            context->is_line_gone = true;
            context_kill(context);
        } else {
            runs_on_event(context, &event);
        }
    }
    context->is_pumping = false;
    if (context->is_freed) {
        if (!context->is_posted)
            context_free(context);
        return;
    }
    if (context->kernel == NULL)
        return;
    set_watches(context);
    if (count == TAKEN_AT_ONCE && !context->is_posted) {
        context->is_posted = true;
        loop_post(context->place->provider_loop, &context->again);
    }
}

/* --- Its end --- */

static void close_inner(struct context *context)
{
    for (int i = 0; i < 3 && context->has_inner; i++)
        fd_close(&context->inner[i]);
    context->has_inner = false;
}

void context_drop_kernel(struct context *context)
{
    close_inner(context);
    if (context->kernel == NULL)
        return;
    if (context->is_asked) {
        context_kill(context);
        place_remove(context->place, &context->op);
    }
    for (int i = 0; i < 3; i++)
        context->watches[i] = watch_free(context->watches[i]);
    context->kernel = kernel_free(context->kernel);
    context->is_asked = context->is_started = context->is_line_gone = context->is_killed = false;
    context->is_ready = false;
    context->run_count = 0;
    live_on_death(context);
}

void context_free(struct context *context)
{
    context_drop_kernel(context);
    context->timer = timer_free(context->timer);
    context->place = NULL;
    context->is_freed = true;
    if (context->is_pumping || context->is_posted)
        return;
    arena_done(&context->arena);
    free(context);
}

void context_signal(struct context *context, int signo)
{
    struct err err = {0};
    uint32_t ignored = 0;
    if (!context->is_started)
        return;
    if (jail_ask_signal(context->place->jail, context->op.id, signo, &ignored, &err) < 0)
        log_debug("kernel.signal", LOG_ID("sandbox", str_of(context->place->id)),
                  LOG_STR("error", err.msg));
    place_watch(context->place);
}

static void on_killed(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    AUTO_MEM char *sandbox = request->ctx;
    if (why != NULL)
        log_debug("kernel.kill", LOG_ID("sandbox", str_of(sandbox)), LOG_STR("error", why->msg));
}

void context_kill(struct context *context)
{
    struct err err = {0};
    uint32_t number = 0;
    struct provider *provider = context->place->provider;
    context->is_killed = true;
    context_signal(context, SIGKILL);
    /* The rest of its family, wherever it has gone. */
    if (context->is_started && provider->warden != NULL &&
        jail_ask_kill(context->place->jail, context->op.id, &number, &err) == 0)
        (void)jail_warden_asked(provider, number, on_killed, place_copy_id(context->place));
}

/* The process is gone; what it has said before is still to be heard. */
static void on_exited(struct context *context, int signo)
{
    struct kernel_event event;
    context->signal = signo;
    context->is_asked = context->is_started = false;
    place_remove(context->place, &context->op);
    for (size_t i = 0; i < TAKEN_AT_ONCE && context->kernel != NULL && take(context, &event); i++)
        if (event.type != KERNEL_GONE)
            runs_on_event(context, &event);
    if (!context->is_freed)
        runs_on_death(context, NULL);
}

static int ask_start(struct context *context, bool is_fork, struct err *err);

static void on_event(struct asked_op *op, const struct jail_event *event, const struct err *why)
{
    struct context *context = (struct context *)op;
    if (event == NULL) { /* the place has gone */
        context->is_asked = context->is_started = false;
        runs_on_death(context, why);
    } else if (event->type == JAIL_EVENT_STARTED) {
        context->is_started = true;
        close_inner(context);
        fd_close(&context->memory_fd);
        if (context->is_killed)
            context_kill(context);
    } else if (event->type == JAIL_EVENT_REFUSED || event->type == JAIL_EVENT_FAILED) {
        struct err err = event->err;
        context->is_asked = false;
        place_remove(context->place, op);
        bool again = context->is_fork && context->has_inner && !context->is_killed &&
                     !context->place->is_spare &&
                     (err.code == ERR_UNAVAILABLE || err.code == ERR_UNSUPPORTED);
        if (again)
            context->place->provider->host->on_retry(context->place->provider->host->engine);
        if (!again || ask_start(context, false, &err) < 0)
            runs_on_death(context, &err);
    } else if (event->type == JAIL_EVENT_EXITED) {
        bool was_pumping = context->is_pumping;
        context->is_pumping = true; /* it stays while its last words are told */
        on_exited(context, event->exit.signal);
        context->is_pumping = was_pumping;
        if (context->is_freed)
            context_free(context);
    }
}

/* --- Its start --- */

static bool is_same_name(const char *pair, const char *other)
{
    return other != NULL && strncmp(pair, other, (size_t)(strchr(pair, '=') - pair) + 1) == 0;
}

const char **context_env(const struct context *context, struct arena *arena)
{
    const char *const *own = context->runtime->env;
    struct engine_pairs net = {0};
    size_t count = 0, all = 1;
    if (context->place->net != NULL)
        net = network_env(context->place->net, true, arena);
    const struct engine_pairs *lists[] = {&net, &context->place->env, &context->env};
    while (own[all - 1] != NULL)
        all++;
    const char **env =
        arena_array(arena, const char *, all + net.len + lists[1]->len + lists[2]->len + 1);
    for (; own[count] != NULL; count++)
        env[count] = is_same_name(own[count], context->runtime->packages_env)
                         ? context->runtime->packages_env
                         : own[count];
    for (size_t list = 0; list < countof(lists); list++)
        for (size_t i = 0; i < lists[list]->len; i++) {
            struct engine_pair pair = lists[list]->items[i];
            struct str text =
                arena_printf(arena, "%.*s=%.*s", STR_ARG(pair.name), STR_ARG(pair.value));
            size_t at = 0; /* the last word counts */
            while (at < count &&
                   !str_starts(str_of(env[at]), str_slice(text, 0, pair.name.len + 1)))
                at++;
            env[at] = text.ptr;
            count += at == count;
        }
    if (context->is_ahead)
        env[count] = RUNTIME_AHEAD;
    return env;
}

/* Layers may bring other packages than the template has imported; who goes on from another kernel's
 * memory has what that one had. */
static bool may_fork(const struct context *context)
{
    const struct place *place = context->place;
    return place->provider->has_template && context->runtime->forks != NULL &&
           (place->plan.layer_count == 0 || context->memory_fd >= 0);
}

static int ask_start(struct context *context, bool is_fork, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct place *place = context->place;
    uint32_t id = 0;
    if (context->kernel == NULL) {
        if (kernel_open(&context->kernel, context->inner, err) < 0)
            return -1;
        context->has_inner = true;
    }
    context->is_fork = is_fork;
    struct jail_command command = {.argv = context->runtime->argv,
                                   .env = context_env(context, &arena),
                                   .cwd = context->cwd.len > 0 ? context->cwd.ptr : NULL,
                                   .memory_fd = MAX(context->memory_fd, 0),
                                   .template = context->template};
    int asked = is_fork ? jail_ask_fork(place->jail, &command, context->inner, &id, err)
                        : jail_ask_start(place->jail, &command, context->inner, &id, err);
    if (asked < 0)
        return -1;
    context->is_asked = true;
    place_add(place, &context->op, id);
    place_watch(place);
    return 0;
}

int context_start(struct context *context, struct err *err)
{
    int fds[3];
    context->op.on_event = on_event;
    context->again.run = pump_again;
    context->signal = 0;
    jail_template_want(context->place->provider, context->runtime);
    if (!context->is_ahead)
        jail_spares_started(context->place->provider, context->runtime);
    if (ask_start(context, may_fork(context), err) < 0) {
        context_drop_kernel(context);
        return -1;
    }
    kernel_fds(context->kernel, fds);
    for (int i = 0; i < 3; i++)
        if (watch_new(context->place->provider_loop, fds[i], WATCH_READ, on_watch, context,
                      &context->watches[i], err) < 0) {
            context_drop_kernel(context);
            return -1;
        }
    return 0;
}
