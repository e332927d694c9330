/* The end of an interpreter: whether memory ran out, and what is reported to its run and its
 * caller. */

#include <signal.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "runtime/memory_end.h"
#include "runtime/output.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/code/run.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

static void end_of_memory(struct run *run, int64_t peak_bytes)
{
    const struct place *place = run->context->place;
    AUTO_BUF struct buf text = {0}, what = {0};
    buf_printf(&what, "the %s interpreter", run->context->runtime->name);
    memory_end_put(&(struct memory_end){.what = buf_str(&what),
                                        .rest = "its variables are gone, files are kept",
                                        .sandbox = str_of(place->id),
                                        .is_of_session = place->is_of_session,
                                        .limit_bytes = place->plan.limits.memory_bytes,
                                        .peak_bytes = peak_bytes},
                   &text);
    context_lose(run->context, LOSS_OUT_OF_MEMORY);
    run_output_end(&run->output, RUN_OUT_OF_MEMORY, "OutOfMemory", buf_cstr(&text));
}

/* `memory_peak` is that of the sandbox. */
static void end_dead(struct run *run, bool was_memory, int64_t memory_peak)
{
    run->output.is_lost = true;
    if (run->is_late) {
        run_end_late(run,
                     "the code did not react to an interrupt, so its interpreter was killed and "
                     "its variables are gone");
        context_lose(run->context, LOSS_TIMEOUT);
    } else if (was_memory) {
        end_of_memory(run, memory_peak);
    } else {
        context_lose(run->context, LOSS_EXITED);
        run_output_end(&run->output, RUN_DIED, "KernelDied",
                       "the interpreter exited during the run and its variables are gone; the next "
                       "run starts a new one");
    }
    run_compare(run);
}

static void on_judged(struct warden_request *request, const struct warden_event *event,
                      const struct err *why)
{
    struct judging *judging = request->ctx;
    struct run *run = judging->run;
    free(judging);
    if (run == NULL)
        return;
    run->judging = NULL;
    bool was_memory =
        why == NULL && place_has_oom_kills(run->context->place, event->stats.oom_kills);
    end_dead(run, was_memory, why == NULL ? event->stats.memory_peak : -1);
}

/* Killed: the host knows whether memory ran out. */
static void judge(struct run *run)
{
    struct place *place = run->context->place;
    struct err err = {0};
    uint32_t number = 0;
    run_go(run, JUDGING);
    if (place->provider->warden == NULL || jail_ask_stat(place->jail, &number, &err) < 0) {
        end_dead(run, false, -1);
        return;
    }
    run->judging = mem_alloc(sizeof *run->judging);
    run->judging->run = run;
    (void)tier_warden_asked(place->provider, number, on_judged, run->judging);
}

/* Between two runs: the host may know the cause a moment later. */
struct idle_judging {
    struct provider *provider;
    char *sandbox, *context;
    int64_t oom_kills;
};

static void on_idle_judged(struct warden_request *request, const struct warden_event *event,
                           const struct err *why)
{
    struct idle_judging *judging = request->ctx;
    const struct provider_host *host = judging->provider->host;
    if (why == NULL && event->stats.oom_kills > judging->oom_kills)
        host->on_state_lost(host->engine, str_of(judging->sandbox), str_of(judging->context),
                            LOSS_OUT_OF_MEMORY);
    free(judging->sandbox);
    free(judging->context);
    free(judging);
}

static void lose_idle(struct context *context)
{
    struct place *place = context->place;
    struct err err = {0};
    uint32_t number = 0;
    bool had_state = context->has_state;
    context_lose(context, LOSS_EXITED);
    if (!had_state || context->signal != SIGKILL || place->provider->warden == NULL ||
        jail_ask_stat(place->jail, &number, &err) < 0)
        return;
    struct idle_judging *judging = mem_alloc(sizeof *judging);
    *judging = (struct idle_judging){.provider = place->provider,
                                     .sandbox = place_copy_id(place),
                                     .context = mem_dup_cstr(context->id.ptr),
                                     .oom_kills = place->oom_kills};
    (void)tier_warden_asked(place->provider, number, on_idle_judged, judging);
}

void runs_on_death(struct context *context, const struct err *why)
{
    struct run *run = context->runs;
    bool has_code = run != NULL && (run->phase == RUNNING || run->phase == LISTING);
    context_drop_interpreter(context);
    if (run != NULL && run->phase == JUDGING) /* that is known already */
        return;
    if (!has_code) {
        if (run != NULL && run->phase == COMPARING)
            run->output.is_lost |= context->has_state;
        lose_idle(context);
        return;
    }
    timer_clear(context->timer);
    if (run->listing != NULL)
        listing_forget(run->listing);
    run->listing = NULL;
    if (why != NULL) {
        context_lose(context, LOSS_EXITED);
        run_finish(run, why);
    } else if (context->signal == SIGKILL && !run->is_late) {
        judge(run);
    } else {
        end_dead(run, false, -1);
    }
}
