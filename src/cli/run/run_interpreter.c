/* sandglass run --runtime: code in an interpreter in a fresh jail, without a daemon. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/net_arg.h"
#include "cli/run/exec.h"
#include "cli/run/interrupts.h"
#include "cli/run/repl_input.h"
#include "cli/run/run.h"
#include "config/config.h"
#include "jail/client/jail.h"
#include "runtime/memory_end.h"
#include "runtime/output.h"
#include "runtime/runtimes.h"

enum { WAIT_MS = 60000 };

struct interpreter_run {
    struct exec_request *request;
    struct exec_result result; /* what the gate refused */
    struct exec_net *net;
    struct jail *jail;
    struct interpreter *interpreter;
    uint32_t id;
    bool as_json;
    struct run_output output;
    struct err unwritten; /* why its output could not be written: then the code ends, too */
    bool done, gone, timed_out, is_interrupted;
    int interrupt_fd; /* readable after Ctrl-C */
    int64_t interrupted_ms;
    const struct runtime *runtime;
    struct str language;
    int64_t began_ns;
    int64_t deadline_ms; /* INT64_MAX: none */
};

static void run_done(struct interpreter_run *run)
{
    run->interpreter = interpreter_free(run->interpreter);
    run->jail = jail_free(run->jail);
    run->net = exec_net_free(run->net);
    run_output_done(&run->output);
    exec_result_done(&run->result);
    exec_request_done(run->request);
}

static void write_output(struct interpreter_run *run, int fd, struct str text)
{
    if (!run->gone && fd_write_all(fd, text, &run->unwritten) < 0)
        run->gone = true;
}

static const struct interpreter_part *find_part(const struct interpreter_event *event,
                                                const char *mime)
{
    for (size_t i = 0; i < event->part_count; i++)
        if (str_eq(event->parts[i].mime, str_of(mime)))
            return &event->parts[i];
    return NULL;
}

/* For people: the text, and word of a picture that a terminal cannot show. */
static void print_value(const struct interpreter_event *event)
{
    const struct interpreter_part *text = find_part(event, "text/plain");
    const struct interpreter_part *picture = find_part(event, "image/png");
    AUTO_BUF struct buf line = {0};
    if (picture != NULL)
        buf_printf(&line, "[image/png, %zu bytes: --json has it]\n", picture->bytes.len);
    else if (text != NULL)
        buf_printf(&line, "%.*s\n", STR_ARG(text->bytes));
    cli_print(buf_str(&line));
}

static void run_interpreter_on_event(struct interpreter_run *run,
                                     const struct interpreter_event *event)
{
    bool is_told = !run->as_json;
    run->done |= event->type == INTERPRETER_DONE;
    run->gone |= event->type == INTERPRETER_GONE;
    if (event->type == INTERPRETER_STDOUT && is_told)
        write_output(run, STDOUT_FILENO, event->text);
    else if (event->type == INTERPRETER_STDERR && is_told)
        write_output(run, STDERR_FILENO, event->text);
    else if (event->type == INTERPRETER_DISPLAY && is_told)
        print_value(event);
    else
        run_output_take(&run->output, event);
}

/* At the deadline the code is interrupted, which keeps its output; code that ignores that is
 * ended with its jail. */
static void keep_time(struct interpreter_run *run)
{
    struct err err;
    if (clock_now_ms() < run->deadline_ms)
        return;
    run->gone |= run->timed_out;
    run->timed_out = true;
    run->deadline_ms = clock_now_ms() + RUNTIME_GRACE_MS;
    if (!run->gone && jail_signal(run->jail, run->id, SIGINT, &err) < 0)
        run->gone = true;
}

static void keep_interrupt(struct interpreter_run *run)
{
    struct err err;
    if (!interrupts_seen() || run->timed_out ||
        (run->is_interrupted && clock_now_ms() < run->interrupted_ms + RUNTIME_REPEAT_MS))
        return;
    char byte;
    while (read(run->interrupt_fd, &byte, 1) == 1)
        ;
    if (!run->is_interrupted || runtime_repeats_interrupts(run->runtime))
        (void)!jail_signal(run->jail, run->id, SIGINT, &err);
    run->is_interrupted = true;
    run->interrupted_ms = clock_now_ms();
}

static int wait_for_end(struct interpreter_run *run, struct err *err)
{
    struct interpreter_event event;
    while (!run->done && !run->gone) {
        while (!run->done && !run->gone && interpreter_next(run->interpreter, &event))
            run_interpreter_on_event(run, &event);
        if (run->done || run->gone)
            break;
        int fds[3];
        struct pollfd waits[5];
        interpreter_fds(run->interpreter, fds);
        for (int i = 0; i < 3; i++)
            waits[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        if (interpreter_wants_write(run->interpreter))
            waits[0].events |= POLLOUT;
        waits[3] = (struct pollfd){.fd = exec_net_fd(run->net), .events = POLLIN};
        waits[4] = (struct pollfd){.fd = run->interrupt_fd, .events = POLLIN};
        int64_t left = MAX(run->deadline_ms - clock_now_ms(), (int64_t)0);
        int64_t most = run->is_interrupted ? RUNTIME_REPEAT_MS : WAIT_MS;
        int ready = poll(waits, countof(waits), (int)MIN(left, most));
        if (ready < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        if (ready > 0 && waits[3].revents != 0)
            exec_net_step(run->net);
        keep_interrupt(run);
        keep_time(run);
    }
    exec_net_step(run->net); /* what it said last */
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    return 0;
}

/* The interpreter died with its code: for its memory, or by its own hand. */
static void explain_death(struct interpreter_run *run)
{
    struct jail_stats stats = {0};
    struct err err;
    AUTO_BUF struct buf memory = {0};
    bool known = jail_end(run->jail, &stats, &err) == 0;
    memory_end_put(&(struct memory_end){.what = STR("the interpreter")}, &memory);
    run->output.is_lost = true;
    if (run->timed_out)
        run_output_end(&run->output, RUN_TIMEOUT, "Timeout",
                       "the code reached the limit of --timeout and did not react to an interrupt: "
                       "its interpreter was killed");
    else if (known && stats.oom_kills > 0)
        run_output_end(&run->output, RUN_OUT_OF_MEMORY, "OutOfMemory", buf_cstr(&memory));
    else
        run_output_end(&run->output, RUN_DIED, "KernelDied",
                       "the interpreter exited during the run; its variables are lost");
}

static void explain_interrupt(struct interpreter_run *run)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "the code was interrupted ");
    time_limit_put_option(&run->request->limit, &text);
    run_output_end(&run->output, RUN_TIMEOUT, "Timeout", buf_cstr(&text));
}

static void print_json(const struct interpreter_run *run)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    struct loss loss = {run_output_loss(&run->output), clock_date_ms()};
    json_begin_object(&json);
    run_output_put_members(&run->output, &loss, &json);
    if (run->request->policy != NULL || run->result.blocked.len > 0)
        exec_put_blocked(&json, &run->result);
    json_end_object(&json);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
}

static int run_interpreter_finish(struct interpreter_run *run, struct err *err)
{
    struct run_output *output = &run->output;
    if (run->unwritten.sys == EPIPE)
        return EXIT_SIGNALED + SIGPIPE;
    if (run->unwritten.code != ERR_NONE) {
        *err = run->unwritten;
        return err_wrap(err, "standard output");
    }
    if (!run->done)
        explain_death(run);
    else if (run->timed_out && output->status != RUN_OK)
        explain_interrupt(run);
    else if (run->is_interrupted && output->status != RUN_OK)
        output->status = RUN_INTERRUPTED;
    if (run->as_json)
        print_json(run);
    else if (output->traceback.len > 0) /* a shell has said it itself */
        (void)run_print(ISOLATE_STDERR, str_trim(buf_str(&output->traceback)));
    return output->status == RUN_TIMEOUT       ? EXIT_TIMEOUT
           : output->status == RUN_INTERRUPTED ? EXIT_INTERRUPTED
           : output->status == RUN_OK          ? EXIT_OK
                                               : EXIT_FAILED;
}

static int start_interpreter(struct interpreter_run *run, const struct runtime *runtime,
                             struct err *err)
{
    int inner[3];
    if (interpreter_open(&run->interpreter, inner, err) < 0)
        return -1;
    struct jail_command command = {.argv = runtime->argv, .env = run->request->env};
    int done = jail_start(run->jail, &command, inner, &run->id, NULL, err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return done;
}

static int read_timeout(const struct cli_call *call, struct time_limit *limit, struct err *err)
{
    const char *text = cli_value(call, "timeout");
    int64_t asked_ms = 0;
    if (text != NULL && cli_read_limit_ms("timeout", text, &asked_ms, err) < 0)
        return -1;
    *limit = time_limit_of_call(asked_ms, (struct time_limit){0});
    return 0;
}

/* Those of the configuration where no option is given. Limits that the host cannot give are an
 * error that names them (see exec_check_host); `none` goes without. */
static int read_limits(const struct cli_call *call, const struct config *config,
                       struct jail_limits *limits, struct err *err)
{
    const char *memory = cli_value(call, "memory"), *cpus = cli_value(call, "cpus");
    exec_limits_of_config(config, limits);
    if (memory != NULL && run_read_memory(memory, true, &limits->memory_bytes, err) < 0)
        return -1;
    if (cpus != NULL && !exec_read_cpus(cpus, limits))
        return err_set(err, ERR_INVALID, "--cpus: '%s' is not a number like 0.5 or 2, or none",
                       cpus);
    return 0;
}

static int make_plan(const struct cli_call *call, const struct config *config,
                     struct exec_request *request, struct err *err)
{
    const char *workspace = cli_value(call, "workspace");
    if (read_limits(call, config, &request->plan.limits, err) < 0)
        return -1;
    if (workspace == NULL)
        return 0;
    char *real = realpath(workspace, NULL);
    if (real == NULL)
        return err_sys(err, errno, "--workspace '%s'", workspace);
    request->paths[request->path_count++] = real;
    request->plan.workspace = real;
    return 0;
}

static int set_env(const struct cli_call *call, const struct runtime *runtime,
                   struct exec_request *request, struct err *err)
{
    for (size_t i = 0; runtime->env[i] != NULL; i++)
        exec_set_env(request, runtime->env[i]);
    exec_set_env(request, "DENO_DIR=/tmp/.deno"); /* it writes there even without packages */
    exec_net_set_env(request);
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "env") == 0 &&
            exec_add_env(request, call->given[i].value, err) < 0)
            return -1;
    return 0;
}

/* What --lang says, else the file's ending, else what the runtime takes for granted. */
static int find_language(const struct cli_call *call, const struct runtime *runtime,
                         struct str *ret_language, struct err *err)
{
    static const struct {
        const char *name, *ending, *language;
    } rows[] = {{"js", ".js", "javascript"},           {"js", ".mjs", "javascript"},
                {"js", ".cjs", "javascript"},          {"ts", ".ts", "typescript"},
                {"ts", ".mts", "typescript"},          {"ts", ".cts", "typescript"},
                {"tsx", ".tsx", "typescript with JSX"}};
    const char *name = cli_value(call, "lang");
    struct str file = str_of(call->arg_count > 0 ? call->args[0] : ""), language;
    language = str_of(name == NULL ? runtime->language : name);
    for (size_t i = 0; i < countof(rows); i++)
        if (name != NULL ? strcmp(name, rows[i].name) == 0 : str_ends(file, str_of(rows[i].ending)))
            language = str_of(rows[i].language);
    if (!runtime_speaks(runtime, (struct str){0}, language))
        return err_set(err, ERR_INVALID, "runtime '%s' does not run %.*s", runtime->name,
                       STR_ARG(language));
    *ret_language = language;
    return 0;
}

/* A fresh jail with the network that was asked for, and the interpreter in it. */
static int run_interpreter_start(struct interpreter_run *run, struct warden_link *warden,
                                 const struct runtime *runtime, struct err *err)
{
    if (exec_net_start(run->request, &run->result, &run->net, err) < 0 ||
        jail_make(warden, &run->request->plan, &run->jail, err) < 0 ||
        exec_net_open(run->net, warden, run->jail, err) < 0)
        return -1;
    return start_interpreter(run, runtime, err);
}

/* One piece of code in the interpreter, to its end. */
static int run_cell(struct interpreter_run *run, struct str code, struct err *err)
{
    run_output_done(&run->output);
    run->output = (struct run_output){0};
    run->done = run->timed_out = run->is_interrupted = false;
    run->began_ns = clock_now_ns();
    int64_t limit_ms = run->request->limit.ms;
    run->deadline_ms = limit_ms > 0 ? clock_now_ms() + limit_ms : INT64_MAX;
    return interpreter_run(run->interpreter, code, run->language, (struct str){0}, err) < 0 ||
                   wait_for_end(run, err) < 0
               ? -1
               : run_interpreter_finish(run, err);
}

static enum repl_verdict run_typed(void *ctx, struct str code, bool is_last, struct err *err)
{
    struct interpreter_run *run = ctx;
    if (str_trim(code).len == 0)
        return REPL_NEXT;
    if (!is_last && repl_is_unfinished(code, run->language))
        return REPL_MORE;
    return run_cell(run, code, err) < 0 || run->gone ? REPL_END : REPL_NEXT;
}

/* `code` NULL: what is typed at a prompt. */
static int run_in(struct interpreter_run *run, const struct runtime *runtime,
                  const struct str *code, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_BUF struct buf banner = {0};
    interrupts_hold();
    if (warden_start(&warden, err) < 0 ||
        exec_check_host(run->request, warden_host(warden), &run->result, err) < 0 ||
        run_interpreter_start(run, warden, runtime, err) < 0)
        return -1;
    run->interrupt_fd = interrupts_watch(NULL, NULL);
    buf_printf(&banner, "%s in a jail.", runtime->name);
    struct repl repl = {buf_cstr(&banner), run_typed, run};
    int result = code != NULL ? run_cell(run, *code, err) : repl_run(&repl, err);
    run->interpreter = interpreter_free(run->interpreter);
    run->jail = jail_free(run->jail);
    return result;
}

int run_in_interpreter(const struct cli_call *call, const struct config *config, struct str name,
                       const struct str *code, struct err *err)
{
    static struct exec_request request; /* large; one a process */
    AUTO(run_done)
    struct interpreter_run run = {
        .as_json = cli_has(call, "json"), .request = &request, .interrupt_fd = -1};
    AUTO_BUF struct buf data_dir = {0};
    const struct runtime *runtime;
    static struct runtime_places places; /* some 12 KB */
    if (config->server.data_dir.len == 0)
        return err_set(err, ERR_INVALID, "no home directory: set SANDGLASS_HOME");
    request.json = run.as_json;
    buf_put(&data_dir, config->server.data_dir);
    runtimes_use(buf_cstr(&data_dir));
    if (exec_net_read(call, config, &request, err) < 0 || runtime_find(name, &runtime, err) < 0 ||
        read_timeout(call, &request.limit, err) < 0 ||
        find_language(call, runtime, &run.language, err) < 0 ||
        runtime_places_make(runtime, buf_cstr(&data_dir), &places, err) < 0 ||
        make_plan(call, config, &request, err) < 0)
        return -1;
    run.runtime = runtime;
    runtime_places_plan(runtime, &places, &request.plan);
    if (set_env(call, runtime, &request, err) < 0)
        return -1;
    return run_in(&run, runtime, code, err);
}
