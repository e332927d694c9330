/* sandglass exec: a command in a fresh jail, without a daemon. */

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/net_arg.h"
#include "cli/run/exec.h"
#include "runtime/memory_end.h"
#include "runtime/runtimes.h"

/* The real, absolute name: a relative one means nothing to the warden. */
static const char *real_path(struct exec_request *request, const char *path, struct err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        (void)err_sys(err, errno, "exec: '%s'", path);
        return NULL;
    }
    request->paths[request->path_count++] = real;
    return real;
}

static int add_mount(struct exec_request *request, const char *option, const char *value,
                     struct err *err)
{
    struct jail_plan *plan = &request->plan;
    const char *colon = strrchr(value, ':');
    if (colon == NULL || colon == value || colon[1] != '/')
        return err_set(err, ERR_INVALID, "exec: --%s '%s' is not SRC:DST with an absolute DST",
                       option, value);
    if (plan->mount_count == JAIL_MOUNTS_MAX)
        return err_set(err, ERR_INVALID, "exec: more than %d mounts", JAIL_MOUNTS_MAX);
    char src[PATH_MAX];
    if (str_to_cstr(str_n(value, (size_t)(colon - value)), src, sizeof src, err) < 0)
        return -1;
    const char *real = real_path(request, src, err);
    if (real == NULL)
        return -1;
    plan->mounts[plan->mount_count++] =
        (struct jail_mount){.src = real, .dst = colon + 1, .writable = strcmp(option, "rw") == 0};
    return 0;
}

static int read_env(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    for (size_t i = 0; !DEFENDED(CLEAN_ENVIRONMENT) && environ[i] != NULL && i < 64; i++)
        exec_set_env(request, environ[i]);
    for (const char *const *pair = runtime_env_plain; *pair != NULL; pair++)
        exec_set_env(request, *pair);
    exec_net_set_env(request);
    if (request->command.tty && exec_add_env(request, "TERM", err) < 0)
        exec_set_env(request, "TERM=" RUNTIME_TERM);
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "env") == 0 &&
            exec_add_env(request, call->given[i].value, err) < 0)
            return -1;
    request->command.env = request->env;
    return 0;
}

static void read_command(const struct cli_call *call, struct exec_request *request)
{
    for (size_t i = 0; i < call->arg_count; i++)
        request->argv[i] = call->args[i];
    bool person = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (call->arg_count == 0)
        request->argv[0] = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    request->command.argv = request->argv;
    request->command.cwd = cli_value(call, "cwd");
    request->command.tty = cli_has(call, "tty") || (call->arg_count == 0 && person);
}

static int read_places(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    const char *workspace = cli_value(call, "workspace");
    if (workspace != NULL) {
        request->plan.workspace = real_path(request, workspace, err);
        if (request->plan.workspace == NULL)
            return -1;
    }
    for (size_t i = 0; i < call->given_count; i++) {
        const char *name = call->given[i].option->name;
        if ((strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0) &&
            add_mount(request, name, call->given[i].value, err) < 0)
            return -1;
    }
    request->plan.overlay = cli_has(call, "overlay");
    return 0;
}

static int read_request(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    request->json = cli_has(call, "json");
    read_command(call, request);
    if (exec_limits_read(call, request, err) < 0 || read_places(call, request, err) < 0 ||
        read_env(call, request, err) < 0)
        return -1;
    if (jail_command_check(&request->command, err) < 0)
        return err_wrap(err, "exec");
    struct jail_plan filled = request->plan;
    jail_plan_fill(&filled);
    if (jail_plan_check(&filled, err) < 0)
        return err_wrap(err, "exec");
    return 0;
}

static int hold_one(struct exec_request *request, const char *path, struct err *err)
{
    struct jail_plan filled = request->plan;
    jail_plan_fill(&filled);
    struct disk_quota_limit limit = {.bytes = filled.limits.disk_bytes,
                                     .inodes = filled.limits.disk_inodes};
    struct err why = {0};
    if (disk_quota_hold(path, &limit, &request->holds[request->hold_count], &why) < 0)
        return err_set(err, why.code,
                       "--disk cannot limit '%.60s' (%.80s); omit --disk, or omit the directory to "
                       "write to memory",
                       path, why.msg);
    request->hold_count++;
    return 0;
}

/* What was asked for is kept or refused: a writable directory of the host counts as well. */
static int hold_places(struct exec_request *request, struct err *err)
{
    const struct jail_plan *plan = &request->plan;
    if (!request->limits_disk)
        return 0;
    if (plan->workspace != NULL && hold_one(request, plan->workspace, err) < 0)
        return -1;
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable && hold_one(request, plan->mounts[i].src, err) < 0)
            return -1;
    return 0;
}

/* As a shell does: no message for Ctrl-C, and none for a closed pipe. */
static void tell_signal(int sig)
{
    const char *name = sigabbrev_np(sig), *words = sigdescr_np(sig);
    if (sig != SIGINT && sig != SIGPIPE && name != NULL && words != NULL)
        (void)fprintf(stderr, "sandglass: exec: ended by SIG%s (%s)\n", name, words);
}

static int exec_finish(const struct exec_request *request, struct exec_result *result, int done,
                       const struct err *err)
{
    AUTO_BUF struct buf out = {0};
    if (request->json) {
        exec_put_json(&out, result, done < 0 ? err : NULL);
        cli_print(buf_str(&out));
    } else if (done < 0) {
        cli_put_plain(&out, str_of(err->msg));
        (void)fprintf(stderr, "sandglass: exec: %s\n", buf_cstr(&out));
    } else if (result->reason == EXEC_TIMED_OUT) {
        time_limit_put_option(&request->limit, &out);
        (void)fprintf(stderr,
                      "sandglass: exec: ended %s; give a larger --timeout, or 'none' for no "
                      "limit\n",
                      buf_cstr(&out));
    } else if (result->reason == EXEC_OOM) {
        memory_end_put(&(struct memory_end){.what = STR("the command")}, &out);
        (void)fprintf(stderr, "sandglass: exec: %s\n", buf_cstr(&out));
    } else if (result->reason == EXEC_SIGNALED) {
        tell_signal(result->exit.signal);
    } else if (result->reason == EXEC_GONE) {
        (void)fprintf(stderr, "sandglass: exec: the jail was killed\n");
    }
    return done < 0 ? exec_refused_code(err) : exec_exit_code(result);
}

static int exec(const struct cli_call *call, struct err *err)
{
    static struct exec_request request; /* large; one a process */
    struct exec_result result = {0};
    int done = read_request(call, &request, err), code = -1;
    if (done == 0) {
        done = hold_places(&request, err);
        if (done == 0)
            done = exec_run(&request, &result, err);
        code = exec_finish(&request, &result, done, err);
    }
    exec_result_done(&result);
    exec_request_done(&request);
    return code;
}

static const struct cli_option exec_options[] = {
    {.letter = 'w',
     .name = "workspace",
     .value = "DIR",
     .help = "Mount this directory at /workspace, writable"},
    {.letter = 'm',
     .name = "memory",
     .value = "SIZE",
     .help = "Limit memory (default 512m; 'none' for no limit)"},
    {.name = "pids", .value = "N", .help = "Limit processes and threads (default 256)"},
    {.name = "cpus",
     .value = "N",
     .help = "Limit cores, as in 0.5 (default 1; 'none' for no limit)"},
    {.name = "disk",
     .value = "SIZE[:FILES]",
     .help = "Limit the size of written files: in memory (default 1g) and, if this option is "
             "given, in each directory of --workspace and --rw"},
    {.letter = 't',
     .name = "timeout",
     .value = "TIME",
     .help = "Kill the command after 30s, 500ms, 2m, ... (default: jail.command_seconds of "
             "the configuration, else never; never for a shell or a terminal)"},
    {.letter = 'e',
     .name = "env",
     .value = "K=V",
     .help = "Set a variable; K without a value copies it from this environment",
     .repeated = true},
    {.name = "ro",
     .value = "SRC:DST",
     .help = "Mount a file or directory read-only",
     .repeated = true},
    {.name = "rw",
     .value = "SRC:DST",
     .help = "Mount a file or directory writable",
     .repeated = true},
    {.name = "cwd", .value = "DIR", .help = "Start in this directory (default /workspace)"},
    {.name = "overlay", .help = "Make the whole file system writable; changes are lost at the end"},
    NET_OPTIONS(
        "Allow connections to this host, the group npm or pypi, or 'public' (default: none)",
        "Add a key to requests to HOST; nothing in the jail sees its value (default: none)"),
    {.name = "tty", .help = "Give the command a terminal"},
    CLI_OPTION_JSON,
    {0},
};

const struct cli_verb cmd_exec = {
    .name = "exec",
    .args = "[-- CMD [ARG...]]",
    .summary = "Run a command, or a shell if none is given, in a new jail",
    .details = "Needs no daemon. The jail sees the host's programs read-only and reaches only "
               "loopback and the hosts that --allow-host names. When the command ends, the jail is "
               "removed and its remaining processes are killed. Exits with the command's exit "
               "code, 128+N when signal N ended it, 124 after a timeout, 127 when the program is "
               "not found, 126 when it cannot be executed and 125 when the jail cannot be created "
               "or the start directory is not found. With --json prints the exit code, the output, "
               "timings, peak memory and why the command ended.",
    .options = exec_options,
    .args_max = CLI_ARGS_MAX - 1,
    .verbatim = true,
    .run = exec,
};
