/* Runs: code handed to the kernel of a context, one after the other, each to its answer.
 *
 *     QUEUED     another run of the context is under way
 *     INSTALLING packages are installed, before the code or for its next try
 *     LISTING    the files are listed as they are before; a kernel is started when there is none
 *     RUNNING    the kernel has the code
 *     JUDGING    the kernel has died, and the warden is asked whether memory was short
 *     COMPARING  the files are listed as they are after */

#include <signal.h>

#include "base/clock.h"
#include "engine/jail_run.h"

enum {
    RUNS_MAX = 16, /* that wait for one context */
    GRACE_MS = 2000,
    REPEAT_MS = 250,
    DEATH_MS = 5000,
    LISTING_MS = 10000,
};

struct judging {
    struct run *run; /* NULL: it has been answered meanwhile */
};

static void begin(struct context *context);

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

static void answer(struct run *run, const struct err *why)
{
    struct context *context = run->context;
    struct eval_result result = {
        .kernel = &run->output, .context = context->id, .runtime = str_of(context->runtime->name)};
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    run->calls.on_done(run->ctx, why == NULL ? &result : NULL, why);
    run_free(run);
}

/* The context may be gone when this returns: it is the last thing that a caller does. */
void run_finish(struct run *run, const struct err *why)
{
    struct context *context = run->context;
    bool was_pumping = context->is_pumping;
    context->is_pumping = true;
    context->runs = run->next;
    timer_clear(context->timer);
    answer(run, why);
    context->is_pumping = was_pumping;
    if (context->is_freed) {
        if (!was_pumping)
            context_free(context);
    } else if (context->runs != NULL) {
        begin(context);
    }
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
    run->phase = COMPARING;
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
    run->phase = RUNNING;
    if (run->is_interrupted) {
        run_output_end(&run->output, RUN_INTERRUPTED, "Interrupted", "interrupted before it began");
        run_finish(run, NULL);
    } else if ((context->kernel == NULL && context_start(context, &err) < 0) ||
               kernel_run(context->kernel, spec->code, language, buf_str(&env), &err) < 0) {
        run_finish(run, &err);
    } else {
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

static void on_timer(void *ctx);

void run_tell_output(struct run *run, const struct kernel_event *event)
{
    enum isolate_stream stream = event->type == KERNEL_STDOUT ? ISOLATE_STDOUT : ISOLATE_STDERR;
    if (run->calls.on_output != NULL && !run->is_dropping)
        run->calls.on_output(run->ctx, stream, event->text);
}

void run_set_deadline(struct run *run)
{
    run->context->wait = WAIT_DEADLINE;
    run->deadline_ms = clock_now_ms() + run->timeout_ms;
    timer_set(run->context->timer, run->timeout_ms, 0);
}

void run_look_before(struct run *run)
{
    struct context *context = run->context;
    run_set_deadline(run);
    run->phase = LISTING;
    if (run->spec->wants_files && (run->before = listing_take(context->place)) == NULL)
        run->listing = listing_start(context->place, on_before, run);
    else
        run_hand_over(run);
}

static void begin(struct context *context)
{
    struct run *run = context->runs;
    struct err err = {0};
    if (context->place->holds > 0) /* jail_live_release begins it */
        return;
    run->began_ns = clock_now_ns();
    if (context->timer == NULL)
        context->timer = timer_new(context->place->provider_loop, on_timer, context);
    if (context->is_line_gone) /* it died between two runs */
        context_drop_kernel(context);
    if (packages_add_required(run))
        return;
    if (context->kernel == NULL && context_start(context, &err) < 0)
        run_finish(run, &err);
    else
        run_look_before(run);
}

static void on_code_done(struct run *run)
{
    char text[160];
    struct run_output *output = &run->output;
    if (run->is_late && output->status != RUN_OK) {
        (void)snprintf(
            text, sizeof text,
            "out of time after %lld ms; the code was interrupted, its variables are kept",
            (long long)run->timeout_ms);
        run_output_end(output, RUN_TIMEOUT, "Timeout", text);
    } else if (run->is_interrupted && output->status != RUN_OK) {
        output->status = RUN_INTERRUPTED;
    }
    run_compare(run);
}

void runs_on_event(struct context *context, const struct kernel_event *event)
{
    struct run *run = context->runs;
    /* What threads say between two runs is for nobody. */
    if (run == NULL || (run->phase != RUNNING && run->phase != LISTING))
        return;
    run_output_take(&run->output, event);
    if (event->type == KERNEL_STDOUT || event->type == KERNEL_STDERR)
        run_tell_output(run, event);
    else if (event->type == KERNEL_DISPLAY && run->calls.on_value != NULL && !run->is_dropping)
        run->calls.on_value(run->ctx, event->parts, event->part_count, event->main);
    if (event->type != KERNEL_DONE)
        return;
    context->run_count = event->count;
    if (!packages_add_missing(run))
        on_code_done(run);
}

void runs_go_on(struct context *context)
{
    if (context->runs != NULL && context->runs->phase == QUEUED)
        begin(context);
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

/* --- Death --- */

static void end_dead(struct run *run, bool was_memory)
{
    char text[160];
    run->output.is_lost = true;
    if (run->is_late) {
        (void)snprintf(text, sizeof text,
                       "out of time after %lld ms, and deaf to an interrupt: the interpreter was "
                       "ended, its variables are gone",
                       (long long)run->timeout_ms);
        run_output_end(&run->output, RUN_TIMEOUT, "Timeout", text);
    } else if (was_memory) {
        run_output_end(&run->output, RUN_OUT_OF_MEMORY, "OutOfMemory",
                       "the sandbox's memory was used up: the interpreter was ended, its variables "
                       "are gone; limits.memoryMb gives a sandbox more");
    } else {
        run_output_end(&run->output, RUN_DIED, "KernelDied",
                       "the interpreter ended with the code, its variables are gone; the next run "
                       "starts another");
    }
    run_compare(run);
}

static void on_judged(struct request *request, const struct warden_event *event,
                      const struct err *why)
{
    struct judging *judging = request->ctx;
    struct run *run = judging->run;
    free(judging);
    if (run == NULL)
        return;
    run->judging = NULL;
    int64_t kills = why == NULL ? event->stats.oom_kills : 0;
    bool was_memory = kills > run->context->place->oom_kills;
    run->context->place->oom_kills = MAX(kills, run->context->place->oom_kills);
    end_dead(run, was_memory);
}

/* Killed: the host knows whether it was for want of memory. */
static void judge(struct run *run)
{
    struct place *place = run->context->place;
    struct err err = {0};
    uint32_t number = 0;
    run->phase = JUDGING;
    if (place->provider->warden == NULL || jail_ask_stat(place->jail, &number, &err) < 0) {
        end_dead(run, false);
        return;
    }
    run->judging = mem_alloc(sizeof *run->judging);
    run->judging->run = run;
    (void)jail_warden_asked(place->provider, number, on_judged, run->judging);
}

void runs_on_death(struct context *context, const struct err *why)
{
    struct run *run = context->runs;
    context_drop_kernel(context);
    if (run == NULL || run->phase == JUDGING || run->phase == COMPARING || run->phase == INSTALLING)
        return;
    timer_clear(context->timer);
    if (run->listing != NULL)
        listing_forget(run->listing);
    run->listing = NULL;
    if (why != NULL)
        run_finish(run, why);
    else if (context->signal == SIGKILL && !run->is_late)
        judge(run);
    else
        end_dead(run, false);
}

/* --- Time, interrupts, restarts --- */

/* It passes over an interrupt that comes between two of its commands: it is told again. */
static bool is_shell(const struct context *context)
{
    return strcmp(context->runtime->language, "bash") == 0;
}

static int64_t patience_ms(const struct context *context)
{
    return is_shell(context) ? REPEAT_MS : GRACE_MS;
}

static bool is_deaf(const struct context *context, const struct run *run)
{
    return run->repeats * patience_ms(context) >= GRACE_MS;
}

static void interrupt_late(struct context *context, struct run *run)
{
    context->wait = WAIT_GRACE;
    run->repeats++;
    timer_set(context->timer, patience_ms(context), 0);
    context_signal(context, SIGINT);
}

/* As the caller wants it: who is deaf to that has its whole time all the same. */
static void interrupt_wanted(struct context *context, struct run *run)
{
    int64_t left_ms = MAX(run->deadline_ms - clock_now_ms(), 1);
    if (is_shell(context) && !is_deaf(context, run) && left_ms > REPEAT_MS) {
        context->wait = WAIT_HEARING;
        run->repeats++;
        timer_set(context->timer, REPEAT_MS, 0);
    } else {
        context->wait = WAIT_DEADLINE;
        run->repeats = 0;
        timer_set(context->timer, left_ms, 0);
    }
    context_signal(context, SIGINT);
}

static void ignore_done(UNUSED void *ctx, UNUSED const struct eval_result *result,
                        UNUSED const struct err *why)
{
}

/* Its time is up while all stands still: who waits for it is told. What has begun is interrupted
 * when the place goes on (jail_runs_resume), and nobody is told of that any more. */
static void leave_paused(struct context *context, struct run *run)
{
    static const struct eval_spec nothing;
    char text[160];
    (void)snprintf(text, sizeof text,
                   "out of time after %lld ms, the sandbox was paused meanwhile; the code is "
                   "interrupted when it is resumed",
                   (long long)run->timeout_ms);
    run_output_end(&run->output, RUN_TIMEOUT, "Timeout", text);
    if (run->phase == LISTING) {
        run_finish(run, NULL);
        return;
    }
    struct eval_calls calls = run->calls;
    struct eval_result result = {
        .kernel = &run->output, .context = context->id, .runtime = str_of(context->runtime->name)};
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    run->is_late = run->is_dropping = true;
    run->is_stopped = false;
    run->calls = (struct eval_calls){.on_done = ignore_done};
    run->spec = &nothing;
    calls.on_done(run->ctx, &result, NULL); /* the last of it: it may end the place */
}

void jail_runs_resume(struct place *place)
{
    place->is_paused = false;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->runs != NULL && context->runs->phase == RUNNING && context->runs->is_late)
            interrupt_late(context, context->runs);
}

static void on_timer(void *ctx)
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
        packages_give_up(run, RUN_TIMEOUT, "Timeout", "the installation of packages took too long");
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
    context_drop_kernel(context);
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
        answer(run, why);
    }
}

/* --- Asked for --- */

void jail_eval(UNUSED struct provider *provider, struct place *place, UNUSED struct str tenant,
               const struct eval_spec *spec, const struct eval_calls *calls, void *ctx)
{
    struct err err = {0};
    struct context *context =
        context_find(place, spec->context, spec->runtime, spec->language, &err);
    if (context != NULL && runs_count(context) >= RUNS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d runs wait for context '%.*s' already", RUNS_MAX,
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
    run->timeout_ms = spec->timeout_ms > 0 ? spec->timeout_ms : place->exec_ms;
    while (*at != NULL)
        at = &(*at)->next;
    *at = run;
    if (context->runs == run)
        begin(context);
}

void jail_eval_flow(struct place *place, const void *ctx, bool stop)
{
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        for (struct run *run = context->runs; run != NULL; run = run->next)
            if (run->ctx == ctx && !run->is_late) {
                run->is_stopped = stop;
                if (run == context->runs && context->kernel != NULL)
                    context_pump(context);
                return;
            }
}
