/* Live forks: what the interpreters of a place hold, written down by themselves, and places whose
 * interpreters go on from it.
 *
 * Each interpreter that can is asked between two cells to write its memory to a file in memory
 * (jail/zygote_image.h), which is sealed then. Nothing here looks into it: the file goes on to a
 * kernel that is forked into the new jail. What cannot go on begins anew, and says why. From the
 * question until the files of the sandbox are kept as well, its interpreters take no code. */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/internal.h"
#include "engine/jail_kernel.h"

enum {
    TAKE_MS = 20000,
    REVIVE_MS = 20000,
    SPARED_MIB = 16, /* of the sandbox's memory, for what it does meanwhile */
    WAITERS_MAX = 8,
    SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

/* One interpreter's. */
struct live_part {
    struct str id, cwd;
    const struct runtime *runtime;
    struct engine_pairs env;
    uint32_t run_count;
    int fd; /* -1: it begins anew */
    char reason[CONTEXT_REASON_MAX];
};

struct live_kernels {
    int refs;
    struct arena arena;
    uint32_t template; /* that their interpreters are forks of */
    struct live_part parts[CONTEXTS_MAX];
    size_t count;
};

/* The question to all interpreters of a place. */
struct live_taking {
    struct place *place;
    struct live_kernels *live;
    struct {
        live_done *done;
        void *ctx;
    } waiters[WAITERS_MAX];
    size_t waiter_count, pending;
    struct timer *timer;
    struct live_asking *asking;
};

/* The question to the warden how much memory is left, and whose forks they are. */
struct live_asking {
    struct live_taking *taking; /* NULL: nobody wants to know any more */
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

static struct live_kernels *live_ref(struct live_kernels *live)
{
    if (live != NULL)
        live->refs++;
    return live;
}

void jail_live_free(struct live_kernels *live)
{
    if (live == NULL || --live->refs > 0)
        return;
    for (size_t i = 0; i < live->count; i++)
        fd_close(&live->parts[i].fd);
    arena_done(&live->arena);
    free(live);
}

static void add_part(struct live_kernels *live, const struct context *context)
{
    struct live_part *part = &live->parts[live->count++];
    *part = (struct live_part){.id = arena_dup(&live->arena, context->id),
                               .cwd = arena_dup(&live->arena, context->cwd),
                               .runtime = context->runtime,
                               .env = pairs_dup(&context->env, &live->arena),
                               .run_count = context->run_count,
                               .fd = -1};
}

static void set_reason(char reason[CONTEXT_REASON_MAX], struct str text)
{
    if (reason[0] == '\0' && str_is_utf8(text))
        (void)snprintf(reason, CONTEXT_REASON_MAX, "%.*s", STR_ARG(text));
}

/* --- Taking --- */

static void finish_taking(struct live_taking *taking, const struct err *why)
{
    struct place *place = taking->place;
    place->taking = NULL;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        context->copying = NULL;
    if (taking->asking != NULL)
        taking->asking->taking = NULL;
    taking->timer = timer_free(taking->timer);
    for (size_t i = 0; i < taking->waiter_count; i++)
        taking->waiters[i].done(taking->waiters[i].ctx, why == NULL ? live_ref(taking->live) : NULL,
                                why);
    jail_live_free(taking->live);
    free(taking);
}

static void one_taken(struct context *context, struct str reason)
{
    struct live_taking *taking = context->place->taking;
    struct live_part *part = context->copying;
    context->copying = NULL;
    if (reason.len == 0 && fcntl(part->fd, F_ADD_SEALS, SEALS) < 0)
        reason = STR("its memory was changed while it was written");
    if (reason.len > 0) {
        fd_close(&part->fd);
        set_reason(part->reason, reason);
    }
    if (--taking->pending == 0)
        finish_taking(taking, NULL);
}

void live_on_copied(struct context *context, const struct kernel_event *event)
{
    if (context->copying != NULL)
        one_taken(context, event->ok ? (struct str){0}
                           : event->text.len > 0
                               ? event->text
                               : STR("the interpreter could not write its memory"));
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
    if (part->fd < 0 || kernel_copy(context->kernel, part->fd, limit_mib, &err) < 0) {
        fd_close(&part->fd);
        set_reason(part->reason, str_of(err.code != 0 ? err.msg : "no file for its memory"));
        return;
    }
    context->copying = part;
    taking->pending++;
}

static const char *why_not(const struct context *context)
{
    if (context->runtime->forks == NULL)
        return "interpreters of this runtime cannot be copied";
    if (context->kernel == NULL || context->is_line_gone)
        return "it had no interpreter";
    if (!context->is_fork)
        return "its interpreter was started by its program, not forked from a template";
    if (context->runs != NULL || kernel_is_busy(context->kernel))
        return "it was running code";
    return context->is_ready ? NULL : "its interpreter was about to start";
}

/* In MiB for each interpreter; the warden has said how much is in use. */
static void copy_all(struct live_taking *taking, int64_t room_bytes)
{
    struct place *place = taking->place;
    struct live_kernels *live = taking->live;
    size_t count = 0, i = 0;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        count += why_not(context) == NULL;
    int64_t mib = MAX((room_bytes >> 20) - SPARED_MIB, (int64_t)0) / (int64_t)MAX(count, (size_t)1);
    taking->pending = 1;
    live->count = 0;
    for (struct context *context = place->contexts; context != NULL && live->count < CONTEXTS_MAX;
         context = context->next, i++) {
        add_part(live, context);
        const char *reason = why_not(context);
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

static void on_room(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct live_asking *asking = request->ctx;
    struct live_taking *taking = asking->taking;
    free(asking);
    if (taking == NULL)
        return;
    taking->asking = NULL;
    int64_t limit = taking->place->plan.limits.memory_bytes;
    taking->live->template = why == NULL ? event->stats.template : 0;
    int64_t used = why == NULL ? MAX(event->stats.memory_now, (int64_t)0) : 0;
    copy_all(taking, limit == JAIL_UNLIMITED || limit == 0 ? INT64_MAX >> 8 : limit - used);
}

void jail_live_take(struct place *place, live_done *done, void *ctx)
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
        (void)err_set(&err, ERR_BUSY, "%d forks of the sandbox are under way", WAITERS_MAX);
        done(ctx, NULL, &err);
        return;
    }
    place->holds++;
    bool is_first = taking == NULL;
    if (is_first) {
        place->taking = taking = mem_alloc(sizeof *taking);
        taking->place = place;
        taking->live = mem_alloc(sizeof *taking->live);
        taking->live->refs = 1;
        taking->timer = timer_new(place->provider_loop, on_take_time, taking);
    }
    taking->waiters[taking->waiter_count].done = done;
    taking->waiters[taking->waiter_count++].ctx = ctx;
    if (!is_first)
        return;
    if (place->provider->warden == NULL || jail_ask_stat(place->jail, &number, &err) < 0) {
        copy_all(taking, place->plan.limits.memory_bytes / 2);
        return;
    }
    taking->asking = mem_alloc(sizeof *taking->asking);
    taking->asking->taking = taking;
    (void)jail_warden_asked(place->provider, number, on_room, taking->asking);
}

void jail_live_release(struct place *place)
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
    context->is_reviving = false;
    context->is_live = is_live;
    if (!is_live)
        context->run_count = 0;
    if (!is_live)
        set_reason(context->reason, str_of(reason));
    else
        context->reason[0] = '\0';
    if (--reviving->pending == 0)
        finish_reviving(reviving, NULL);
}

void live_on_ready(struct context *context, const struct kernel_event *event)
{
    if (context->is_reviving)
        one_revived(context, event->live,
                    context->is_fork ? "its memory could not be restored"
                                     : "no template was ready to fork it from");
}

void live_on_word(struct context *context, const struct kernel_event *event)
{
    const struct str prefix = STR("kernel: ");
    struct str text = event->text;
    if (!context->is_reviving || event->type != KERNEL_STDERR)
        return;
    if (str_starts(text, prefix))
        text = str_slice(text, prefix.len, text.len);
    while (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    set_reason(context->reason, text);
}

void live_on_death(struct context *context)
{
    fd_close(&context->memory_fd);
    if (context->copying != NULL)
        one_taken(context, STR("the interpreter ended"));
    if (context->is_reviving)
        one_revived(context, false, "the interpreter ended while its memory was restored");
}

static void on_revive_time(void *ctx)
{
    struct live_reviving *reviving = ctx;
    struct place *place = reviving->place;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->is_reviving && place->reviving == reviving)
            context_drop_kernel(context);
}

static void revive_one(struct place *place, const struct live_part *part, uint32_t template)
{
    struct err err = {0};
    struct context *context = context_make(place, part->id, part->runtime, &err);
    if (context == NULL)
        return;
    context->env = pairs_dup(&part->env, &context->arena);
    context->cwd = arena_dup(&context->arena, part->cwd);
    context->is_copy = true;
    set_reason(context->reason, str_of(part->reason));
    if (part->fd < 0)
        return;
    context->run_count = part->run_count;
    context->memory_fd = fcntl(part->fd, F_DUPFD_CLOEXEC, 3);
    context->template = template;
    context->is_reviving = true;
    place->reviving->pending++;
    if (context->memory_fd < 0 || context_start(context, &err) < 0)
        live_on_death(context);
}

void jail_live_revive(struct place *place, engine_done *done, void *ctx)
{
    struct live_kernels *live = place->live;
    place->live = NULL;
    if (live == NULL) {
        done(ctx, NULL);
        return;
    }
    struct live_reviving *reviving = mem_alloc(sizeof *reviving);
    *reviving = (struct live_reviving){.place = place, .done = done, .ctx = ctx, .pending = 1};
    place->reviving = reviving;
    reviving->timer = timer_new(place->provider_loop, on_revive_time, reviving);
    timer_set(reviving->timer, REVIVE_MS, 0);
    for (size_t i = 0; i < live->count; i++)
        revive_one(place, &live->parts[i], live->template);
    jail_live_free(live);
    if (--reviving->pending == 0)
        finish_reviving(reviving, NULL);
}

void jail_live_begin(struct place *place, struct live_kernels *live)
{
    place->live = live_ref(live);
}

void jail_live_end(struct place *place, const struct err *why)
{
    if (place->taking != NULL)
        finish_taking(place->taking, why);
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        context->is_reviving = false;
    if (place->reviving != NULL)
        finish_reviving(place->reviving, why);
    jail_live_free(place->live);
    place->live = NULL;
    place->holds = 0;
}
