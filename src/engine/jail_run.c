/* Runs: code handed to the kernel of a context, one after the other, each to its answer.
 *
 *     QUEUED     another run of the context is under way
 *     INSTALLING packages are installed, before the code or for its next try
 *     LISTING    the files are listed as they are before; a kernel is started when there is none
 *     RUNNING    the kernel has the code
 *     JUDGING    the kernel has died, and the warden is asked whether memory was short
 *     COMPARING  the files are listed as they are after */

#include <signal.h>
#include <stdarg.h>

#include "base/clock.h"
#include "engine/jail_kernel.h"
#include "runtime/packages.h"

enum {
    RUNS_MAX = 16, /* that wait for one context */
    GRACE_MS = 2000,
    REPEAT_MS = 250,
    DEATH_MS = 5000,
    INSTALL_MS = 300000,
};

enum run_phase { QUEUED, INSTALLING, LISTING, RUNNING, JUDGING, COMPARING };

struct judging {
    struct run *run; /* NULL: it has been answered meanwhile */
};

struct run {
    struct run *next;
    struct context *context;
    const struct eval_spec *spec; /* lives as long: the engine keeps it */
    struct eval_calls calls;
    void *ctx;
    enum run_phase phase;
    struct run_output output;
    struct listing_op *listing;
    struct listing *before;
    struct judging *judging;
    struct install *install;
    bool is_retry; /* the code runs once more, with the package it missed */
    int64_t began_ns, timeout_ms;
    bool is_late, is_interrupted;
    bool is_stopped, is_dropping; /* its output waits, or is for nobody */
    int repeats;                  /* of the interrupt */
    int64_t deadline_ms;
};

static void begin(struct context *context);

/* --- The answer --- */

static void run_free(struct run *run)
{
    if (run->listing != NULL)
        listing_forget(run->listing);
    if (run->judging != NULL)
        run->judging->run = NULL;
    if (run->install != NULL)
        install_stop(run->install);
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
static void finish(struct run *run, const struct err *why)
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
    finish(run, NULL);
}

static void compare(struct run *run)
{
    timer_clear(run->context->timer);
    run->phase = COMPARING;
    if (run->before == NULL)
        finish(run, NULL);
    else
        run->listing = listing_start(run->context->place, on_after, run);
}

/* --- Its course --- */

static void hand_over(struct run *run)
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
        finish(run, NULL);
    } else if ((context->kernel == NULL && context_start(context, &err) < 0) ||
               kernel_run(context->kernel, spec->code, language, buf_str(&env), &err) < 0) {
        finish(run, &err);
    } else {
        context_pump(context);
    }
}

static void on_before(void *ctx, struct listing *before)
{
    struct run *run = ctx;
    run->listing = NULL;
    run->before = before;
    hand_over(run);
}

static void on_timer(void *ctx)
{
    runs_on_time(ctx);
}

static void tell_output(struct run *run, const struct kernel_event *event)
{
    enum isolate_stream stream = event->type == KERNEL_STDOUT ? ISOLATE_STDOUT : ISOLATE_STDERR;
    if (run->calls.on_output != NULL && !run->is_dropping)
        run->calls.on_output(run->ctx, stream, event->text);
}

static void set_deadline(struct run *run)
{
    run->context->wait = WAIT_DEADLINE;
    run->deadline_ms = clock_now_ms() + run->timeout_ms;
    timer_set(run->context->timer, run->timeout_ms, 0);
}

static void look_before(struct run *run)
{
    struct context *context = run->context;
    set_deadline(run);
    run->phase = LISTING;
    if (run->spec->wants_files && (run->before = listing_take(context->place)) == NULL)
        run->listing = listing_start(context->place, on_before, run);
    else
        hand_over(run);
}

/* --- Packages --- */

static void notice(struct run *run, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void notice(struct run *run, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct kernel_event event = {.type = KERNEL_STDERR, .text = str_of(text)};
    run_output_take(&run->output, &event);
    tell_output(run, &event);
}

/* What the sandbox and the run ask for and is not there yet. */
static size_t find_unmet(const struct run *run, struct str ret_unmet[PACKAGES_MAX])
{
    const struct place *place = run->context->place;
    const struct eval_spec *spec = run->spec;
    bool is_own = str_eq(str_of(run->context->runtime->name), place->runtime);
    size_t count = 0, own = is_own ? place->requirement_count : 0;
    for (size_t i = 0; i < own + spec->requirement_count && count < PACKAGES_MAX; i++) {
        struct str one = i < own ? place->requirements[i] : spec->requirements[i - own];
        if (!map_has(&place->installed, one))
            ret_unmet[count++] = one;
    }
    return count;
}

static void on_requirements(void *ctx, const struct err *why)
{
    struct run *run = ctx;
    struct str met[PACKAGES_MAX];
    run->install = NULL;
    if (why != NULL) {
        run_output_end(&run->output, RUN_FAILED, "InstallError", why->msg);
        finish(run, NULL);
        return;
    }
    for (size_t i = find_unmet(run, met); i-- > 0;)
        (void)map_put(&run->context->place->installed, met[i], run->context->place);
    /* One that has run nothing yet may have imported other versions with its template. */
    if (run->context->run_count == 0)
        context_drop_kernel(run->context);
    look_before(run);
}

static void begin_install(struct run *run)
{
    run->phase = INSTALLING;
    run->context->wait = WAIT_INSTALL;
    timer_set(run->context->timer, INSTALL_MS, 0);
}

static void install_requirements(struct run *run, const struct str *unmet, size_t count)
{
    struct err err = {0};
    begin_install(run);
    if (install_start(run->context, unmet, count, on_requirements, run, &run->install, &err) < 0)
        on_requirements(run, &err);
}

/* The error is the code's own; why the package could not be had is added to it. */
static void explain_missing(struct run *run, struct str package, const struct err *why)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%s; the package '%.*s' may have it: %s",
               buf_cstr(&run->output.error_message), STR_ARG(package), why->msg);
    buf_clear(&run->output.error_message);
    buf_put(&run->output.error_message, str_slice(buf_str(&text), 0, RUN_ERROR_MAX));
}

static void on_package(void *ctx, const struct err *why)
{
    struct run *run = ctx;
    struct str package = {0};
    run->install = NULL;
    (void)package_of_module(run->context->runtime, buf_str(&run->output.module), &package);
    if (why != NULL) {
        explain_missing(run, package, why);
        compare(run);
        return;
    }
    notice(run, "[sandglass] installed '%.*s' for the module '%.100s'; running the code again\n",
           STR_ARG(package), buf_cstr(&run->output.module));
    run_output_retry(&run->output);
    const struct provider_host *host = run->context->place->provider->host;
    host->on_retry(host->engine);
    set_deadline(run);
    hand_over(run);
}

/* True when the code shall be run once more with a package that it misses. */
static bool install_missing(struct run *run)
{
    struct err err = {0};
    struct str package = {0};
    if (run->output.status != RUN_FAILED || run->output.module.len == 0 || run->is_retry ||
        run->is_late || run->is_interrupted || !run->spec->may_install ||
        !package_of_module(run->context->runtime, buf_str(&run->output.module), &package))
        return false;
    run->is_retry = true;
    begin_install(run);
    if (install_start(run->context, &package, 1, on_package, run, &run->install, &err) == 0)
        return true;
    explain_missing(run, package, &err);
    return false;
}

static void begin(struct context *context)
{
    struct run *run = context->runs;
    struct err err = {0};
    run->began_ns = clock_now_ns();
    if (context->timer == NULL)
        context->timer = timer_new(context->place->provider_loop, on_timer, context);
    if (context->is_line_gone) /* it died between two runs */
        context_drop_kernel(context);
    struct str unmet[PACKAGES_MAX];
    size_t count = find_unmet(run, unmet);
    if (count > 0)
        install_requirements(run, unmet, count);
    else if (context->kernel == NULL && context_start(context, &err) < 0)
        finish(run, &err);
    else
        look_before(run);
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
    compare(run);
}

void runs_on_event(struct context *context, const struct kernel_event *event)
{
    struct run *run = context->runs;
    /* What threads say between two runs is for nobody. */
    if (run == NULL || (run->phase != RUNNING && run->phase != LISTING))
        return;
    run_output_take(&run->output, event);
    if (event->type == KERNEL_STDOUT || event->type == KERNEL_STDERR)
        tell_output(run, event);
    else if (event->type == KERNEL_DISPLAY && run->calls.on_value != NULL && !run->is_dropping)
        run->calls.on_value(run->ctx, event->parts, event->part_count, event->main);
    if (event->type != KERNEL_DONE)
        return;
    context->run_count = event->count;
    if (!install_missing(run))
        on_code_done(run);
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
    compare(run);
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
        finish(run, why);
    else if (context->signal == SIGKILL && !run->is_late)
        judge(run);
    else
        end_dead(run, false);
}

/* --- Time, interrupts, restarts --- */

static void end_install(struct run *run, enum run_status status, const char *name,
                        const char *message)
{
    install_stop(run->install);
    run->install = NULL;
    run_output_end(&run->output, status, name, message);
    compare(run);
}

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

void runs_on_time(struct context *context)
{
    struct run *run = context->runs;
    if (run == NULL)
        return;
    if (context->wait == WAIT_HEARING) {
        interrupt_wanted(context, run);
    } else if (context->wait == WAIT_DEADLINE) {
        run->is_late = true;
        /* A client that reads slowly must not make the code look deaf. */
        run->is_dropping |= run->is_stopped;
        run->is_stopped = false;
        interrupt_late(context, run);
        context_pump(context);
    } else if (context->wait == WAIT_INSTALL) {
        end_install(run, RUN_TIMEOUT, "Timeout", "the installation of packages took too long");
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
        end_install(run, RUN_INTERRUPTED, "Interrupted",
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
    if (run->install != NULL)
        install_stop(run->install);
    run->install = NULL;
    if (run->listing != NULL)
        listing_forget(run->listing);
    run->listing = NULL;
    run->output.is_lost = true;
    run_output_end(&run->output, RUN_DIED, "Restarted", message);
    compare(run);
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
