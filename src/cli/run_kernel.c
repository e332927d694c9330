/* sandglass run --runtime: code in a kernel in a fresh jail, without a daemon. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/exec.h"
#include "cli/run.h"
#include "engine/config.h"
#include "jail/jail.h"
#include "runtime/output.h"
#include "runtime/runtimes.h"

enum { TIMEOUT_MS = 30000, TIMEOUT_MAX_MS = 600000, GRACE_MS = 2000 };

struct kernel_run {
    struct exec_request *request;
    struct exec_result result; /* what the gate refused */
    struct exec_net *net;
    struct jail *jail;
    struct kernel *kernel;
    uint32_t id;
    bool as_json;
    struct run_output output;
    bool done, gone, timed_out;
    int64_t began_ns, deadline_ms, timeout_ms;
};

static void run_done(struct kernel_run *run)
{
    run->kernel = kernel_free(run->kernel);
    run->jail = jail_free(run->jail);
    run->net = exec_net_free(run->net);
    run_output_done(&run->output);
    exec_result_done(&run->result);
    exec_request_done(run->request);
}

static void write_output(struct kernel_run *run, int fd, struct str text)
{
    struct err err;
    if (fd_write_all(fd, text, &err) < 0)
        run->gone = true; /* nobody reads any more */
}

static const struct kernel_part *find_part(const struct kernel_event *event, const char *mime)
{
    for (size_t i = 0; i < event->part_count; i++)
        if (str_eq(event->parts[i].mime, str_of(mime)))
            return &event->parts[i];
    return NULL;
}

/* For people: the text, and word of a picture that a terminal cannot show. */
static void print_value(const struct kernel_event *event)
{
    const struct kernel_part *text = find_part(event, "text/plain");
    const struct kernel_part *picture = find_part(event, "image/png");
    AUTO_BUF struct buf line = {0};
    if (picture != NULL)
        buf_printf(&line, "[image/png, %zu bytes: --json has it]\n", picture->bytes.len);
    else if (text != NULL)
        buf_printf(&line, "%.*s\n", STR_ARG(text->bytes));
    cli_print(buf_str(&line));
}

static void on_event(struct kernel_run *run, const struct kernel_event *event)
{
    bool is_told = !run->as_json;
    run->done |= event->type == KERNEL_DONE;
    run->gone |= event->type == KERNEL_GONE;
    if (event->type == KERNEL_STDOUT && is_told)
        write_output(run, STDOUT_FILENO, event->text);
    else if (event->type == KERNEL_STDERR && is_told)
        write_output(run, STDERR_FILENO, event->text);
    else if (event->type == KERNEL_DISPLAY && is_told)
        print_value(event);
    else
        run_output_take(&run->output, event);
}

/* At the deadline the code is interrupted, which keeps what it said; what does not heed that is
 * ended with its jail. */
static void keep_time(struct kernel_run *run)
{
    struct err err;
    if (clock_now_ms() < run->deadline_ms)
        return;
    run->gone |= run->timed_out;
    run->timed_out = true;
    run->deadline_ms = clock_now_ms() + GRACE_MS;
    if (!run->gone && jail_signal(run->jail, run->id, SIGINT, &err) < 0)
        run->gone = true;
}

static int wait_for_end(struct kernel_run *run, struct err *err)
{
    struct kernel_event event;
    while (!run->done && !run->gone) {
        while (!run->done && !run->gone && kernel_next(run->kernel, &event))
            on_event(run, &event);
        if (run->done || run->gone)
            break;
        int fds[3];
        struct pollfd waits[4];
        kernel_fds(run->kernel, fds);
        for (int i = 0; i < 3; i++)
            waits[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        if (kernel_wants_write(run->kernel))
            waits[0].events |= POLLOUT;
        waits[3] = (struct pollfd){.fd = exec_net_fd(run->net), .events = POLLIN};
        int64_t left = MAX(run->deadline_ms - clock_now_ms(), (int64_t)0);
        int ready = poll(waits, countof(waits), (int)left);
        if (ready < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        if (ready > 0 && waits[3].revents != 0)
            exec_net_step(run->net);
        keep_time(run);
    }
    exec_net_step(run->net); /* what it said last */
    run->output.duration_us = (clock_now_ns() - run->began_ns) / 1000;
    return 0;
}

/* The kernel died with its code: for its memory, or by its own hand. */
static void explain_death(struct kernel_run *run)
{
    struct jail_stats stats = {0};
    struct err err;
    bool known = jail_end(run->jail, &stats, &err) == 0;
    run->output.is_lost = true;
    if (run->timed_out)
        run_output_end(&run->output, RUN_TIMEOUT, "Timeout",
                       "out of time, and deaf to an interrupt");
    else if (known && stats.oom_kills > 0)
        run_output_end(&run->output, RUN_OUT_OF_MEMORY, "OutOfMemory",
                       "out of memory; --memory gives more");
    else
        run_output_end(&run->output, RUN_DIED, "KernelDied",
                       "the code ended its interpreter; variables are gone");
}

static void explain_interrupt(struct kernel_run *run)
{
    char text[96];
    (void)snprintf(text, sizeof text, "out of time after %lld ms; the code was interrupted",
                   (long long)run->timeout_ms);
    run_output_end(&run->output, RUN_TIMEOUT, "Timeout", text);
}

static void print_json(const struct kernel_run *run)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    json_begin_object(&json);
    run_output_put_members(&run->output, &json);
    if (run->request->policy != NULL || run->result.blocked.len > 0)
        exec_put_blocked(&json, &run->result);
    json_end_object(&json);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
}

static int finish(struct kernel_run *run)
{
    struct run_output *output = &run->output;
    if (!run->done)
        explain_death(run);
    else if (run->timed_out && output->status != RUN_OK)
        explain_interrupt(run);
    if (run->as_json)
        print_json(run);
    else if (output->traceback.len > 0) /* a shell has said it itself */
        run_print(ISOLATE_STDERR, str_trim(buf_str(&output->traceback)));
    return output->status == RUN_TIMEOUT ? EXIT_TIMEOUT
           : output->status == RUN_OK    ? EXIT_OK
                                         : EXIT_FAILED;
}

static int start_kernel(struct kernel_run *run, const struct runtime *runtime, struct err *err)
{
    int inner[3];
    if (kernel_open(&run->kernel, inner, err) < 0)
        return -1;
    struct jail_command command = {.argv = runtime->argv, .env = run->request->env};
    int done = jail_start(run->jail, &command, inner, &run->id, NULL, err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return done;
}

static int read_timeout(const struct cli_call *call, int64_t *ret_ms, struct err *err)
{
    const char *text = cli_value(call, "timeout");
    *ret_ms = TIMEOUT_MS;
    if (text != NULL && !str_to_i64(str_of(text), 1, TIMEOUT_MAX_MS, ret_ms))
        return err_set(err, ERR_INVALID, "--timeout: '%s' is not 1 to %d milliseconds", text,
                       TIMEOUT_MAX_MS);
    return 0;
}

/* Limits that the host cannot give are an error that names them (see exec_check_host); `none` goes
 * without. */
static int read_limits(const struct cli_call *call, struct jail_limits *limits, struct err *err)
{
    const char *memory = cli_value(call, "memory"), *cpus = cli_value(call, "cpus");
    int64_t megabytes = 512;
    double cores = 1;
    bool no_memory = memory != NULL && strcmp(memory, "none") == 0;
    bool no_cpus = cpus != NULL && strcmp(cpus, "none") == 0;
    if (memory != NULL && !no_memory && !str_to_i64(str_of(memory), 16, 1 << 20, &megabytes))
        return err_set(err, ERR_INVALID, "--memory: '%s' is not a number of MB from 16 on, or none",
                       memory);
    if (cpus != NULL && !no_cpus &&
        (!str_to_f64(str_of(cpus), &cores) || cores < 0.01 || cores > 1024))
        return err_set(err, ERR_INVALID, "--cpus: '%s' is not a number like 0.5 or 2, or none",
                       cpus);
    limits->memory_bytes = no_memory ? JAIL_UNLIMITED : megabytes << 20;
    limits->cpu_milli = no_cpus ? JAIL_UNLIMITED : (int64_t)(cores * 1000);
    return 0;
}

static int make_plan(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    const char *workspace = cli_value(call, "workspace");
    if (read_limits(call, &request->plan.limits, err) < 0)
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

/* A fresh jail with the network that was asked for, and the kernel in it. */
static int start(struct kernel_run *run, struct warden_link *warden, const struct runtime *runtime,
                 struct err *err)
{
    if (exec_net_start(run->request, &run->result, &run->net, err) < 0 ||
        jail_make(warden, &run->request->plan, &run->jail, err) < 0 ||
        exec_net_open(run->net, warden, run->jail, err) < 0)
        return -1;
    return start_kernel(run, runtime, err);
}

static int run_cell(struct kernel_run *run, const struct runtime *runtime, struct str code,
                    struct str language, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    if (warden_start(&warden, err) < 0 ||
        exec_check_host(run->request, warden_host(warden), &run->result, err) < 0 ||
        start(run, warden, runtime, err) < 0)
        return -1;
    run->began_ns = clock_now_ns();
    run->deadline_ms = clock_now_ms() + run->timeout_ms;
    if (kernel_run(run->kernel, code, language, (struct str){0}, err) < 0 ||
        wait_for_end(run, err) < 0)
        return -1;
    int code_out = finish(run);
    run->kernel = kernel_free(run->kernel);
    run->jail = jail_free(run->jail);
    return code_out;
}

int run_in_kernel(const struct cli_call *call, const struct config *config, struct str name,
                  struct str code, struct err *err)
{
    static struct exec_request request; /* large; one a process */
    AUTO(run_done) struct kernel_run run = {.as_json = cli_has(call, "json"), .request = &request};
    AUTO_BUF struct buf data_dir = {0};
    const struct runtime *runtime;
    static struct runtime_places places; /* some 12 KB */
    struct str language;
    if (config->server.data_dir.len == 0)
        return err_set(err, ERR_INVALID, "no home directory: set SANDGLASS_HOME");
    request.json = run.as_json;
    buf_put(&data_dir, config->server.data_dir);
    runtimes_use(buf_cstr(&data_dir));
    if (exec_net_read(call, config, &request, err) < 0 || runtime_find(name, &runtime, err) < 0 ||
        read_timeout(call, &run.timeout_ms, err) < 0 ||
        find_language(call, runtime, &language, err) < 0 ||
        runtime_places_make(runtime, buf_cstr(&data_dir), &places, err) < 0 ||
        make_plan(call, &request, err) < 0)
        return -1;
    runtime_places_plan(runtime, &places, &request.plan);
    if (set_env(call, runtime, &request, err) < 0)
        return -1;
    return run_cell(&run, runtime, code, language, err);
}
