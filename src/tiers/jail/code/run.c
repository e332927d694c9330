/* Runs: code handed to the interpreter of a context, one after the other, each to its answer.
 * enum run_phase (run.h) has their states. */

#include "tiers/jail/code/run.h"

#include <signal.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "io/loop.h"
#include "runtime/output.h"
#include "tiers/jail/code/context.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum {
    RUNS_MAX = 16, /* that wait for one context */
    DEATH_MS = 5000,
    LISTING_MS = 10000,
    LATE_MAX = 64 << 10, /* of each stream, between two runs */
};

static void run_begin(struct context *context);

/* --- Phases --- */

#define TO(phase) (1U << (phase))

/* To which phases a run can go from each. It can be answered in any of them. */
static const unsigned moves[] = {
    [QUEUED] = TO(INSTALLING) | TO(LISTING),
    [INSTALLING] = TO(LISTING) | TO(RUNNING) | TO(COMPARING), /* before the code, or between two */
    [LISTING] = TO(RUNNING) | TO(JUDGING) | TO(COMPARING),
    [RUNNING] = TO(INSTALLING) | TO(JUDGING) | TO(COMPARING),
    [JUDGING] = TO(COMPARING),
    [COMPARING] = 0,
};

void run_go(struct run *run, enum run_phase phase)
{
    assert((moves[run->phase] & TO(phase)) != 0);
    run->phase = phase;
}

/* --- The answer --- */

static void run_free(struct run *run)
{
    if (run->listing != NULL)
        listing_forget(run->listing);
    if (run->judging != NULL)
        run->judging->run = NULL;
    packages_leave(run);
    (void)listing_free(run->before);
    run_output_done(&run->output);
    free(run);
}

static void run_answer(struct run *run, const struct err *why)
{
    struct context *context = run->context;
    struct eval_result result = {.interpreter = &run->output,
                                 .context = context->id,
                                 .runtime = str_of(context->runtime->name)};
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    run->calls.on_done(run->ctx, why == NULL ? &result : NULL, why);
    run_free(run);
}

/* The context may be gone when this returns: it is the last thing that a caller does. */
void run_finish(struct run *run, const struct err *why)
{
    struct context *context = run->context;
    bool was_pumping = context->is_pumping;
    hold_take(&context->hold);
    context->is_pumping = true;
    context->runs = run->next;
    timer_clear(context->timer);
    run_answer(run, why);
    context->is_pumping = was_pumping;
    if (context_release(context) && context->runs != NULL)
        run_begin(context);
}

static void on_after(void *ctx, struct listing *after)
{
    struct run *run = ctx;
    run->listing = NULL;
    listing_compare(run->before, after, &run->output);
    listing_keep(run->context->place, after);
    run_finish(run, NULL);
}

void run_compare(struct run *run)
{
    timer_clear(run->context->timer);
    run_go(run, COMPARING);
    if (run->before == NULL) {
        run_finish(run, NULL);
        return;
    }
    /* The place may be paused in this moment. */
    run->context->wait = WAIT_LISTING;
    timer_set(run->context->timer, LISTING_MS, 0);
    run->listing = listing_start(run->context->place, on_after, run);
}

/* --- Its course --- */

/* What background work of earlier runs has put out since the last one. */
static void tell_late(struct run *run)
{
    struct context *context = run->context;
    for (size_t i = 0; i < countof(context->late); i++) {
        AUTO_BUF struct buf text = {0};
        struct excerpt_view view = excerpt_view(&context->late[i], 0);
        excerpt_view_put(&view, "of output between two runs not kept", &text);
        excerpt_done(&context->late[i]);
        context->late[i] = (struct excerpt){0};
        struct interpreter_event event = {.type = i == 0 ? INTERPRETER_STDOUT : INTERPRETER_STDERR,
                                          .text = buf_str(&text)};
        if (text.len == 0)
            continue;
        run_output_take(&run->output, &event);
        run_tell_output(run, &event);
    }
}

void run_hand_over(struct run *run)
{
    struct context *context = run->context;
    struct err err = {0};
    AUTO_BUF struct buf env = {0};
    const struct eval_spec *spec = run->spec;
    for (size_t i = 0; i < spec->env.len; i++) {
        buf_put(&env, spec->env.items[i].name);
        buf_put_char(&env, '=');
        buf_put(&env, spec->env.items[i].value);
        buf_put_char(&env, '\0');
    }
    struct str language =
        spec->language.len > 0 ? spec->language : str_of(context->runtime->language);
    run_go(run, RUNNING);
    const struct provider_host *host = context->place->provider->host;
    if (run->is_interrupted) {
        run_output_end(&run->output, RUN_INTERRUPTED, "Interrupted",
                       "interrupted before it started");
        run_finish(run, NULL);
    } else if ((context->interpreter == NULL && context_start(context, &err) < 0) ||
               interpreter_run(context->interpreter, spec->code, language, buf_str(&env), &err) <
                   0) {
        run_finish(run, &err);
    } else {
        if (!context->has_state)
            host->on_state_begun(host->engine, str_of(context->place->id), context->id);
        context->has_state = true;
        tell_late(run);
        context_pump(context);
    }
}

static void on_before(void *ctx, struct listing *before)
{
    struct run *run = ctx;
    run->listing = NULL;
    run->before = before;
    run_hand_over(run);
}

static void run_on_timer(void *ctx);

void run_tell_output(struct run *run, const struct interpreter_event *event)
{
    enum isolate_stream stream =
        event->type == INTERPRETER_STDOUT ? ISOLATE_STDOUT : ISOLATE_STDERR;
    if (run->calls.on_output != NULL && !run->is_dropping)
        run->calls.on_output(run->ctx, stream, event->text);
}

void run_set_deadline(struct run *run)
{
    const struct time_limit *limit = &run->spec->limit;
    run->context->wait = WAIT_DEADLINE;
    run->deadline_ms = limit->ms > 0 ? clock_now_ms() + limit->ms : INT64_MAX;
    if (limit->ms > 0)
        timer_set(run->context->timer, limit->ms, 0);
    else
        timer_clear(run->context->timer);
}

void run_look_before(struct run *run)
{
    struct context *context = run->context;
    run_set_deadline(run);
    run_go(run, LISTING);
    if (run->spec->wants_files && (run->before = listing_take(context->place)) == NULL)
        run->listing = listing_start(context->place, on_before, run);
    else
        run_hand_over(run);
}

static void run_begin(struct context *context)
{
    struct run *run = context->runs;
    struct err err = {0};
    if (context->place->holds > 0) /* tier_live_release begins it */
        return;
    run->began_ns = clock_now_ns();
    if (context->timer == NULL)
        context->timer = timer_new(context->place->provider_loop, run_on_timer, context);
    if (context->line == LINE_GONE) { /* it died between two runs */
        context_lose(context, LOSS_EXITED);
        context_drop_interpreter(context);
    }
    if (packages_add_required(run))
        return;
    if (context->interpreter == NULL && context_start(context, &err) < 0)
        run_finish(run, &err);
    else
        run_look_before(run);
}

void run_end_late(struct run *run, const char *what)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%s. It was ended ", what);
    time_limit_put(&run->spec->limit, &text);
    run_output_end(&run->output, RUN_TIMEOUT, "Timeout", buf_cstr(&text));
}

static void on_code_done(struct run *run)
{
    struct run_output *output = &run->output;
    if (run->is_late && output->status != RUN_OK) {
        run_end_late(run, "the code was interrupted; its variables are kept");
    } else if (run->is_interrupted && output->status != RUN_OK) {
        output->status = RUN_INTERRUPTED;
    }
    run_compare(run);
}

void runs_on_event(struct context *context, const struct interpreter_event *event)
{
    struct run *run = context->runs;
    bool is_text = event->type == INTERPRETER_STDOUT || event->type == INTERPRETER_STDERR;
    bool is_between = run == NULL || (run->phase != RUNNING && run->phase != LISTING);
    if (is_between && is_text)
        excerpt_put(&context->late[event->type == INTERPRETER_STDERR], event->text, LATE_MAX);
    if (is_between)
        return;
    run_output_take(&run->output, event);
    if (is_text)
        run_tell_output(run, event);
    else if (event->type == INTERPRETER_DISPLAY && run->calls.on_value != NULL && !run->is_dropping)
        run->calls.on_value(run->ctx, event->parts, event->part_count, event->main);
    if (event->type != INTERPRETER_DONE)
        return;
    context->run_count = event->count;
    if (run->output.is_lost) /* a shell that ended; its interpreter has started another */
        context_lose(context, LOSS_EXITED);
    if (!packages_add_missing(run))
        on_code_done(run);
}

void runs_go_on(struct context *context)
{
    if (context->runs != NULL && context->runs->phase == QUEUED)
        run_begin(context);
}

bool runs_want_output(const struct context *context)
{
    return context->runs == NULL || !context->runs->is_stopped;
}

size_t runs_count(const struct context *context)
{
    size_t count = 0;
    for (const struct run *run = context->runs; run != NULL; run = run->next)
        count++;
    return count;
}

/* --- Time, interrupts, restarts --- */

static int64_t patience_ms(const struct context *context)
{
    return runtime_repeats_interrupts(context->runtime) ? RUNTIME_REPEAT_MS : RUNTIME_GRACE_MS;
}

static bool is_deaf(const struct context *context, const struct run *run)
{
    return run->repeats * patience_ms(context) >= RUNTIME_GRACE_MS;
}

static void interrupt_late(struct context *context, struct run *run)
{
    context->wait = WAIT_GRACE;
    run->repeats++;
    timer_set(context->timer, patience_ms(context), 0);
    context_signal(context, SIGINT);
}

/* The caller's interrupt. Code that ignores it still has its whole time. */
static void interrupt_wanted(struct context *context, struct run *run)
{
    int64_t left_ms = MAX(run->deadline_ms - clock_now_ms(), 1);
    if (runtime_repeats_interrupts(context->runtime) && !is_deaf(context, run) &&
        left_ms > RUNTIME_REPEAT_MS) {
        context->wait = WAIT_HEARING;
        run->repeats++;
        timer_set(context->timer, RUNTIME_REPEAT_MS, 0);
    } else {
        context->wait = WAIT_DEADLINE;
        run->repeats = 0;
        if (run->deadline_ms != INT64_MAX)
            timer_set(context->timer, left_ms, 0);
    }
    context_signal(context, SIGINT);
}

static void ignore_done(UNUSED void *ctx, UNUSED const struct eval_result *result,
                        UNUSED const struct err *why)
{
}

/* The time of a run is up while the sandbox is paused: its caller gets the answer now. Code that
 * has started is interrupted when the place is resumed (tier_runs_resume), without another
 * report. */
static void leave_paused(struct context *context, struct run *run)
{
    static const struct eval_spec nothing;
    run_end_late(
        run, "the sandbox was paused during the run; the code is interrupted when the sandbox is "
             "resumed");
    if (run->phase == LISTING) {
        run_finish(run, NULL);
        return;
    }
    struct eval_calls calls = run->calls;
    struct eval_result result = {.interpreter = &run->output,
                                 .context = context->id,
                                 .runtime = str_of(context->runtime->name)};
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    run->is_late = run->is_dropping = true;
    run->is_stopped = false;
    run->calls = (struct eval_calls){.on_done = ignore_done};
    run->spec = &nothing;
    calls.on_done(run->ctx, &result, NULL); /* the last of it: it may end the place */
}

void tier_runs_resume(struct place *place)
{
    place->is_paused = false;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->runs != NULL && context->runs->phase == RUNNING && context->runs->is_late)
            interrupt_late(context, context->runs);
}

static void run_on_timer(void *ctx)
{
    struct context *context = ctx;
    struct run *run = context->runs;
    if (run == NULL)
        return;
    if (context->wait == WAIT_LISTING) {
        run->output.has_more_files = true;
        run_finish(run, NULL);
    } else if (context->place->is_paused && (run->phase == LISTING || run->phase == RUNNING)) {
        leave_paused(context, run);
    } else if (context->wait == WAIT_HEARING) {
        interrupt_wanted(context, run);
    } else if (context->wait == WAIT_DEADLINE) {
        run->is_late = true;
        /* A client that reads slowly must not make the code look deaf. */
        run->is_dropping |= run->is_stopped;
        run->is_stopped = false;
        interrupt_late(context, run);
        context_pump(context);
    } else if (context->wait == WAIT_INSTALL) {
        packages_give_up(
            run, RUN_TIMEOUT, "Timeout",
            "installing the packages took longer than 5 minutes. Install them in a shell "
            "(pip install, npm install), which has no such limit");
    } else if (context->wait == WAIT_GRACE && !is_deaf(context, run)) {
        interrupt_late(context, run);
    } else if (context->wait == WAIT_GRACE) {
        context->wait = WAIT_DEATH;
        timer_set(context->timer, DEATH_MS, 0);
        context_kill(context);
    } else {
        runs_on_death(context, NULL);
    }
}

void runs_interrupt(struct context *context)
{
    struct run *run = context->runs;
    if (run != NULL && run->phase == INSTALLING) {
        packages_give_up(run, RUN_INTERRUPTED, "Interrupted",
                         "interrupted while packages were installed");
        return;
    }
    if (run == NULL || (run->phase != RUNNING && run->phase != LISTING))
        return;
    run->is_interrupted = true;
    if (run->phase == RUNNING && context->wait == WAIT_DEADLINE)
        interrupt_wanted(context, run);
}

void runs_restart(struct context *context, const char *message)
{
    struct run *run = context->runs;
    context_lose(context, LOSS_CONTEXT_RESTART);
    context_drop_interpreter(context);
    if (run == NULL || (run->phase != RUNNING && run->phase != LISTING && run->phase != INSTALLING))
        return;
    packages_leave(run);
    if (run->listing != NULL)
        listing_forget(run->listing);
    run->listing = NULL;
    run->output.is_lost = true;
    run_output_end(&run->output, RUN_DIED, "Restarted", message);
    run_compare(run);
}

void runs_fail(struct context *context, const struct err *why)
{
    while (context->runs != NULL) {
        struct run *run = context->runs;
        context->runs = run->next;
        run_answer(run, why);
    }
}

/* --- Asked for --- */

void tier_eval(UNUSED struct provider *provider, struct place *place, UNUSED struct str tenant,
               const struct eval_spec *spec, const struct eval_calls *calls, void *ctx)
{
    struct err err = {0};
    struct context *context =
        context_find(place, spec->context, spec->runtime, spec->language, &err);
    if (context != NULL && runs_count(context) >= RUNS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d runs already wait for context '%.*s'", RUNS_MAX,
                      STR_ARG(context->id));
        context = NULL;
    }
    if (context == NULL) {
        calls->on_done(ctx, NULL, &err);
        return;
    }
    struct run *run = mem_alloc(sizeof *run);
    struct run **at = &context->runs;
    *run = (struct run){.context = context, .spec = spec, .calls = *calls, .ctx = ctx};
    while (*at != NULL)
        at = &(*at)->next;
    *at = run;
    if (context->runs == run)
        run_begin(context);
}

void tier_eval_flow(struct place *place, const void *ctx, bool stop)
{
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        for (struct run *run = context->runs; run != NULL; run = run->next)
            if (run->ctx == ctx && !run->is_late) {
                run->is_stopped = stop;
                if (run == context->runs && context->interpreter != NULL)
                    context_pump(context);
                return;
            }
}
