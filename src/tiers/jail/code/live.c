/* Live forks: the interpreters of a place save their state themselves, and the interpreters of
 * another place continue from it.
 *
 * Each interpreter that can is asked between two cells to write its memory to a file in memory
 * (jail/zygote/zygote_image.h), which is sealed then. Nothing here reads the file: it is passed to
 * an interpreter that is forked into the new jail. An interpreter that cannot continue starts fresh
 * and reports why. From the request until the files of the sandbox are copied as well, its
 * interpreters run no code. */

#include "tiers/jail/code/live.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/provider.h"
#include "io/loop.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/code/live_internal.h"
#include "tiers/jail/code/quiesce.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

enum {
    TAKE_MS = 20000,
    REVIVE_MS = 20000,
    SPARED_MIB = 16, /* of the sandbox's memory, for what it does meanwhile */
    WAITERS_MAX = 8,
};

/* The question to all interpreters of a place. */
struct live_taking {
    struct place *place;
    struct live_interpreters *live;
    struct live_waiter {
        struct live_request request;
        live_done *done;
        void *ctx;
    } waiters[WAITERS_MAX];
    size_t waiter_count, pending;
    struct live_request request; /* of all who wait */
    bool is_begun;               /* the interpreters have been asked by it */
    int64_t room_mib;            /* of the sandbox's memory */
    int64_t part_mib;            /* what each of them may write */
    struct timer *timer;
    struct live_asking *asking;
};

/* The question to the warden how much memory is left, and whose forks they are. */
struct live_asking {
    struct live_taking *taking; /* NULL: the result is not needed any more */
};

/* A new place whose interpreters begin. */
struct live_reviving {
    struct place *place;
    engine_done *done;
    void *ctx;
    size_t pending;
    struct timer *timer;
};

/* --- What was taken --- */

struct live_interpreters *live_new(void)
{
    struct live_interpreters *live = mem_alloc(sizeof *live);
    live->refs = 1;
    return live;
}

struct live_interpreters *tier_live_ref(struct live_interpreters *live)
{
    if (live != NULL)
        live->refs++;
    return live;
}

void tier_live_free(struct live_interpreters *live)
{
    if (live == NULL || --live->refs > 0)
        return;
    live_leave(live);
    for (size_t i = 0; i < live->count; i++)
        fd_close(&live->parts[i].fd);
    arena_done(&live->arena);
    free(live);
}

struct live_part *live_add(struct live_interpreters *live, const struct live_part *like)
{
    struct live_part *part = &live->parts[live->count++];
    *part = (struct live_part){.id = arena_dup(&live->arena, like->id),
                               .cwd = arena_dup(&live->arena, like->cwd),
                               .runtime = like->runtime,
                               .env = pairs_dup(&like->env, &live->arena),
                               .run_count = like->run_count,
                               .has_state = like->has_state,
                               .fd = -1};
    return part;
}

static void add_part(struct live_interpreters *live, const struct context *context)
{
    struct live_part like = {.id = context->id,
                             .cwd = context->cwd,
                             .runtime = context->runtime,
                             .env = context->env,
                             .run_count = context->run_count,
                             .has_state = context->has_state};
    (void)live_add(live, &like);
}

static void set_reason(char reason[CONTEXT_REASON_MAX], struct str text)
{
    if (reason[0] == '\0' && str_is_utf8(text))
        (void)snprintf(reason, CONTEXT_REASON_MAX, "%.*s", STR_ARG(text));
}

/* --- Taking --- */

static bool is_within(const struct live_request *request, const struct live_request *larger)
{
    return request->most_bytes <= larger->most_bytes && request->only_used >= larger->only_used;
}

static void finish_taking(struct live_taking *taking, const struct err *why)
{
    struct place *place = taking->place;
    place->taking = NULL;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        context->copying = NULL;
    if (taking->asking != NULL)
        taking->asking->taking = NULL;
    taking->timer = timer_free(taking->timer);
    for (size_t i = 0; i < taking->waiter_count; i++) {
        const struct live_waiter *waiter = &taking->waiters[i];
        if (why != NULL) {
            waiter->done(waiter->ctx, NULL, why);
        } else if (is_within(&waiter->request, &taking->request)) {
            waiter->done(waiter->ctx, tier_live_ref(taking->live), NULL);
        } else { /* who came behind the question and wants more of them */
            place->holds--;
            tier_live_take(place, &waiter->request, waiter->done, waiter->ctx);
        }
    }
    tier_live_free(taking->live);
    free(taking);
}

static void one_taken(struct context *context, struct str reason)
{
    struct live_taking *taking = context->place->taking;
    struct live_part *part = context->copying;
    context->copying = NULL;
    if (reason.len == 0 && fcntl(part->fd, F_ADD_SEALS, LIVE_SEALS) < 0)
        reason = STR("its memory was changed while it was written");
    if (reason.len > 0) {
        fd_close(&part->fd);
        set_reason(part->reason, reason);
    }
    if (--taking->pending == 0)
        finish_taking(taking, NULL);
}

static struct str why_too_large(const struct live_taking *taking, char text[CONTEXT_REASON_MAX])
{
    bool is_setting = taking->request.most_bytes >> 20 < taking->room_mib;
    (void)snprintf(text, CONTEXT_REASON_MAX,
                   is_setting ? "its memory is larger than the %lld MiB that [sandbox] "
                                "keep_variables_mb gives to it"
                              : "its memory is larger than the %lld MiB that the sandbox's memory "
                                "limit leaves for a copy",
                   (long long)taking->part_mib);
    return str_of(text);
}

void live_on_copied(struct context *context, const struct interpreter_event *event)
{
    char text[CONTEXT_REASON_MAX];
    struct str reason = event->text;
    if (context->copying == NULL)
        return;
    if (event->ok)
        reason = (struct str){0};
    else if (str_eq(reason, STR(JAIL_COPY_TOO_LARGE)))
        reason = why_too_large(context->place->taking, text);
    else if (reason.len == 0)
        reason = STR("the interpreter could not write its memory");
    one_taken(context, reason);
}

static void on_take_time(void *ctx)
{
    struct live_taking *taking = ctx;
    struct place *place = taking->place;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->copying != NULL && place->taking == taking)
            one_taken(context, STR("the interpreter did not answer in time"));
}

static void begin_copy(struct context *context, struct live_part *part, uint32_t limit_mib)
{
    struct live_taking *taking = context->place->taking;
    struct err err = {0};
    part->fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (part->fd < 0 || interpreter_copy(context->interpreter, part->fd, limit_mib, &err) < 0) {
        fd_close(&part->fd);
        set_reason(part->reason, str_of(err.code != 0 ? err.msg : "no file for its memory"));
        return;
    }
    context->copying = part;
    taking->pending++;
}

static const char *why_not(const struct context *context, const struct live_request *request)
{
    if (context->runtime->forks == NULL)
        return "interpreters of this runtime cannot be copied";
    if (context->interpreter == NULL || context->line == LINE_GONE)
        return "it had no interpreter";
    if (request->only_used && !context->has_state)
        return "it had no variables";
    if (!context->is_fork)
        return "its interpreter was started from its executable, not forked from a zygote";
    if (context->runs != NULL || interpreter_is_busy(context->interpreter))
        return "it was running code";
    return context->line == LINE_READY ? NULL : "its interpreter was starting";
}

static size_t count_ready(const struct place *place, const struct live_request *request)
{
    size_t count = 0;
    for (const struct context *context = place->contexts; context != NULL; context = context->next)
        count += why_not(context, request) == NULL;
    return count;
}

/* In MiB for each interpreter; the warden has said how much is in use. */
static void copy_all(struct live_taking *taking, int64_t room_bytes)
{
    struct place *place = taking->place;
    struct live_interpreters *live = taking->live;
    size_t count = count_ready(place, &taking->request), i = 0;
    taking->room_mib = MAX((room_bytes >> 20) - SPARED_MIB, (int64_t)0);
    int64_t mib = MIN(taking->room_mib, taking->request.most_bytes >> 20);
    taking->part_mib = mib /= (int64_t)MAX(count, (size_t)1);
    taking->pending = 1;
    taking->is_begun = true;
    live->sandbox = arena_dup(&live->arena, str_of(place->id));
    live->forks_plain = place->forks_plain;
    live->count = 0;
    for (struct context *context = place->contexts; context != NULL && live->count < CONTEXTS_MAX;
         context = context->next, i++) {
        add_part(live, context);
        const char *reason = why_not(context, &taking->request);
        if (reason != NULL)
            set_reason(live->parts[i].reason, str_of(reason));
        else
            begin_copy(context, &live->parts[i], (uint32_t)MIN(mib, (int64_t)1 << 20));
    }
    if (--taking->pending == 0)
        finish_taking(taking, NULL);
    else
        timer_set(taking->timer, TAKE_MS, 0);
}

static void live_on_room(struct warden_request *request, const struct warden_event *event,
                         const struct err *why)
{
    struct live_asking *asking = request->ctx;
    struct live_taking *taking = asking->taking;
    free(asking);
    if (taking == NULL)
        return;
    taking->asking = NULL;
    int64_t limit = taking->place->plan.limits.memory_bytes;
    taking->live->zygote = why == NULL ? event->stats.zygote : 0;
    int64_t used = why == NULL ? MAX(event->stats.memory_now, (int64_t)0) : 0;
    copy_all(taking, limit == JAIL_UNLIMITED || limit == 0 ? INT64_MAX >> 8 : limit - used);
}

void tier_live_take(struct place *place, const struct live_request *request, live_done *done,
                    void *ctx)
{
    struct live_taking *taking = place->taking;
    struct err err = {0};
    uint32_t number = 0;
    if (place->contexts == NULL) {
        place->holds++;
        done(ctx, NULL, NULL);
        return;
    }
    if (taking != NULL && taking->waiter_count == WAITERS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d forks of the sandbox are in progress", WAITERS_MAX);
        done(ctx, NULL, &err);
        return;
    }
    place->holds++;
    bool is_first = taking == NULL;
    if (is_first) {
        place->taking = taking = mem_alloc(sizeof *taking);
        taking->place = place;
        taking->live = live_new();
        taking->request = *request;
        taking->timer = timer_new(place->provider_loop, on_take_time, taking);
    }
    taking->waiters[taking->waiter_count++] = (struct live_waiter){*request, done, ctx};
    if (!taking->is_begun) {
        taking->request.most_bytes = MAX(taking->request.most_bytes, request->most_bytes);
        taking->request.only_used = taking->request.only_used && request->only_used;
    }
    if (!is_first)
        return;
    if (count_ready(place, request) == 0 || place->provider->warden == NULL ||
        jail_ask_stat(place->jail, &number, &err) < 0) {
        copy_all(taking, place->plan.limits.memory_bytes / 2);
        return;
    }
    taking->asking = mem_alloc(sizeof *taking->asking);
    taking->asking->taking = taking;
    (void)tier_warden_asked(place->provider, number, live_on_room, taking->asking);
}

void tier_live_release(struct place *place)
{
    if (place->holds == 0 || --place->holds > 0)
        return;
    for (struct context *context = place->contexts, *next; context != NULL; context = next) {
        next = context->next;
        runs_go_on(context);
    }
}

/* --- Reviving --- */

static void finish_reviving(struct live_reviving *reviving, const struct err *why)
{
    reviving->place->reviving = NULL;
    reviving->timer = timer_free(reviving->timer);
    engine_done *done = reviving->done;
    void *ctx = reviving->ctx;
    free(reviving);
    done(ctx, why);
}

static void one_revived(struct context *context, bool is_live, const char *reason)
{
    struct live_reviving *reviving = context->place->reviving;
    const struct provider_host *host = context->place->provider->host;
    fd_close(&context->memory_fd);
    context_set_memory(context, is_live ? MEMORY_RESTORED : MEMORY_LOST);
    context->has_state = is_live;
    if (is_live)
        host->on_state_restored(host->engine, str_of(context->place->id), context->id);
    else
        context->run_count = 0;
    if (!is_live) {
        set_reason(context->reason, str_of(reason));
        log_info("variables.lost", LOG_ID("sandbox", str_of(context->place->id)),
                 LOG_VIEW("context", context->id), LOG_STR("reason", context->reason));
    } else {
        context->reason[0] = '\0';
    }
    if (--reviving->pending == 0)
        finish_reviving(reviving, NULL);
}

void live_on_ready(struct context *context, const struct interpreter_event *event)
{
    if (context_is_reviving(context))
        one_revived(context, event->live,
                    context->is_fork ? "its memory could not be restored"
                                     : "no zygote was ready to fork the interpreter from");
}

void live_on_word(struct context *context, const struct interpreter_event *event)
{
    const struct str prefix = STR("interpreter: ");
    struct str text = event->text;
    if (!context_is_reviving(context) || event->type != INTERPRETER_STDERR)
        return;
    if (str_starts(text, prefix))
        text = str_slice(text, prefix.len, text.len);
    while (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    set_reason(context->reason, text);
}

void live_on_death(struct context *context)
{
    if (context->copying != NULL)
        one_taken(context, STR("the interpreter exited"));
    if (context_is_reviving(context))
        one_revived(context, false, "the interpreter exited while its memory was restored");
}

static void on_revive_time(void *ctx)
{
    struct live_reviving *reviving = ctx;
    struct place *place = reviving->place;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context_is_reviving(context) && place->reviving == reviving)
            context_drop_interpreter(context);
}

static void revive_one(struct place *place, const struct live_interpreters *live,
                       const struct live_part *part)
{
    struct err err = {0};
    struct context *context = context_make(place, part->id, part->runtime, &err);
    if (context == NULL)
        return;
    context->env = pairs_dup(&part->env, &context->arena);
    context->cwd = arena_dup(&context->arena, part->cwd);
    set_reason(context->reason, str_of(part->reason));
    if (part->fd < 0) {
        if (context->memory == MEMORY_OWN)
            context_set_memory(context, MEMORY_LOST);
        return;
    }
    context->run_count = part->run_count;
    context->memory_fd = fcntl(part->fd, F_DUPFD_CLOEXEC, 3);
    context->zygote = live->zygote;
    context_set_memory(context, live->is_kept ? MEMORY_READING : MEMORY_MAPPING);
    place->reviving->pending++;
    if (context->memory_fd < 0 || context_start(context, &err) < 0)
        live_on_death(context);
}

void tier_live_revive(struct place *place, engine_done *done, void *ctx)
{
    struct live_interpreters *live = place->live;
    place->live = NULL;
    if (live == NULL) {
        done(ctx, NULL);
        return;
    }
    struct live_reviving *reviving = mem_alloc(sizeof *reviving);
    *reviving = (struct live_reviving){.place = place, .done = done, .ctx = ctx, .pending = 1};
    place->reviving = reviving;
    place->forks_plain = live->forks_plain;
    reviving->timer = timer_new(place->provider_loop, on_revive_time, reviving);
    timer_set(reviving->timer, REVIVE_MS, 0);
    for (size_t i = 0; i < live->count; i++)
        revive_one(place, live, &live->parts[i]);
    tier_live_free(live);
    if (--reviving->pending == 0)
        finish_reviving(reviving, NULL);
}

void tier_live_begin(struct place *place, struct live_interpreters *live)
{
    place->live = tier_live_ref(live);
}

void tier_live_restore(struct place *place, struct live_interpreters *live, engine_done *done,
                       void *ctx)
{
    tier_live_begin(place, live);
    tier_live_revive(place, done, ctx);
}

void tier_live_end(struct place *place, const struct err *why)
{
    tier_quiesce_end(place);
    if (place->taking != NULL)
        finish_taking(place->taking, why);
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context_is_reviving(context)) {
            fd_close(&context->memory_fd);
            context_set_memory(context, MEMORY_LOST);
        }
    if (place->reviving != NULL)
        finish_reviving(place->reviving, why);
    tier_live_free(place->live);
    place->live = NULL;
    place->holds = 0;
}
