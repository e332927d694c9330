/* The limits of `sandglass exec` and `run --runtime`: from the configuration, then from options. */

#include "base/err.h"
#include "cli/cli.h"
#include "cli/net_arg.h"
#include "cli/run/exec.h"
#include "config/config.h"
#include "engine/sandbox/spec.h"

/* What each option takes, for the error message. The bounds are those of
 * jail/wire/plan.c.
 */
#define PIDS_TAKES "a number from 2 to 1024; omit it for the default of 256"
#define CPUS_TAKES "0.01 to 1024 cores, as in 0.5 or 2, or 'none' for no limit"
#define MEMORY_TAKES "4m or more, as in 512m or 2g, or 'none' for no limit"
#define DISK_TAKES "1m or more, and 64 files or more, as in 64m or 64m:1000"
#define TIMEOUT_TAKES "1ms or more, as in 30s or 500ms, or 'none' for no limit"

static int exec_limits_refuse(const char *option, const char *text, const char *takes,
                              struct err *err)
{
    return err_set(err, ERR_INVALID, "exec: --%s '%s' is not valid: it takes %s", option, text,
                   takes);
}

/* Checked with only this limit, so that the error is about this option. */
static bool may_be(const struct jail_limits *limits)
{
    struct jail_plan plan = {.limits = *limits};
    struct err why;
    jail_plan_fill(&plan);
    return jail_plan_check(&plan, &why) == 0;
}

static int read_memory(const char *text, struct jail_limits *limits, struct err *err)
{
    int64_t bytes = 0;
    if (cli_read_memory(text, true, &bytes, err) < 0 ||
        !may_be(&(struct jail_limits){.memory_bytes = bytes}))
        return exec_limits_refuse("memory", text, MEMORY_TAKES, err);
    limits->memory_bytes = bytes;
    return 0;
}

static int read_pids(const char *text, struct jail_limits *limits, struct err *err)
{
    int64_t pids;
    if (!str_to_i64(str_of(text), 1, INT32_MAX, &pids) ||
        !may_be(&(struct jail_limits){.pids = pids}))
        return exec_limits_refuse("pids", text, PIDS_TAKES, err);
    limits->pids = pids;
    return 0;
}

bool exec_read_cpus(const char *text, struct jail_limits *limits)
{
    double cores = 0;
    bool is_none = strcmp(text, "none") == 0;
    if (!is_none && (!str_to_f64(str_of(text), &cores) || !(cores >= 0.01 && cores <= 1024)))
        return false;
    limits->cpu_milli = is_none ? JAIL_UNLIMITED : (int64_t)(cores * 1000);
    return true;
}

static int read_cpus(const char *text, struct jail_limits *limits, struct err *err)
{
    return exec_read_cpus(text, limits) ? 0 : exec_limits_refuse("cpus", text, CPUS_TAKES, err);
}

/* "64m", or "64m:1000" with a number of files. */
static int read_disk(const char *text, struct jail_limits *limits, struct err *err)
{
    char size[32];
    struct jail_limits asked = {0};
    const char *colon = strchr(text, ':');
    struct str first = str_n(text, colon == NULL ? strlen(text) : (size_t)(colon - text));
    if (str_to_cstr(first, size, sizeof size, err) < 0 ||
        (colon != NULL && !str_to_i64(str_of(colon + 1), 1, INT64_MAX, &asked.disk_inodes)) ||
        cli_read_size("disk", size, &asked.disk_bytes, err) < 0 || !may_be(&asked))
        return exec_limits_refuse("disk", text, DISK_TAKES, err);
    limits->disk_bytes = asked.disk_bytes;
    limits->disk_inodes = asked.disk_inodes;
    return 0;
}

void exec_limits_of_config(const struct config *config, struct jail_limits *ret_limits)
{
    struct sandbox_limits limits = {0};
    spec_fill_limits(config, ENGINE_TIER_JAIL, &limits);
    ret_limits->memory_bytes = limits.memory_bytes;
    ret_limits->pids = limits.pids;
    ret_limits->cpu_milli = limits.cpu_milli;
}

/* What the configuration says holds where no option does. A shell and a terminal have no time
 * limit of their own, as in a server. */
static int read_config(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    if (exec_net_read(call, config, request, err) < 0)
        return err_wrap(err, "exec");
    exec_limits_of_config(config, &request->plan.limits);
    if (!request->command.tty && call->arg_count > 0)
        request->limit = time_limit_of_config(config);
    return 0;
}

int exec_limits_read(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    static const struct {
        const char *option;
        int (*read)(const char *text, struct jail_limits *limits, struct err *err);
    } rows[] = {
        {"memory", read_memory}, {"pids", read_pids}, {"cpus", read_cpus}, {"disk", read_disk}};
    if (read_config(call, request, err) < 0)
        return -1;
    for (size_t i = 0; i < countof(rows); i++) {
        const char *text = cli_value(call, rows[i].option);
        if (text != NULL && rows[i].read(text, &request->plan.limits, err) < 0)
            return -1;
    }
    const char *timeout = cli_value(call, "timeout");
    int64_t asked_ms = 0;
    if (timeout != NULL && cli_read_limit("timeout", timeout, &asked_ms, err) < 0)
        return exec_limits_refuse("timeout", timeout, TIMEOUT_TAKES, err);
    if (timeout != NULL)
        request->limit = time_limit_of_call(asked_ms == 0 ? -1 : asked_ms, request->limit);
    request->limits_disk = cli_has(call, "disk");
    return 0;
}
