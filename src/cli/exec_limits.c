/* The limits of `sandglass exec`: from the configuration, then from its options. */

#include "base/err.h"
#include "cli/cli.h"
#include "cli/exec.h"
#include "cli/net_arg.h"
#include "engine/config.h"

/* What each option takes, for whoever gave it something else. The bounds are those of jail/plan.c.
 */
#define MEMORY_TAKES "4m or more, as in 512m or 2g, or 'none' for no limit"
#define PIDS_TAKES "a number from 2 to 1024; leave it out for the default of 256"
#define CPUS_TAKES "0.01 to 1024 cores, as in 0.5 or 2, or 'none' for no limit"
#define DISK_TAKES "1m or more, and 64 files or more, as in 64m or 64m:1000"
#define TIMEOUT_TAKES "1ms or more, as in 30s or 500ms; leave it out for no deadline"

static int refuse(const char *option, const char *text, const char *takes, struct err *err)
{
    return err_set(err, ERR_INVALID, "exec: --%s '%s' cannot be: it takes %s", option, text, takes);
}

/* Judged with this limit alone, so that what is refused is what the option said. */
static bool may_be(const struct jail_limits *limits)
{
    struct jail_plan plan = {.limits = *limits};
    struct err why;
    jail_plan_fill(&plan);
    return jail_plan_check(&plan, &why) == 0;
}

static int read_memory(const char *text, struct jail_limits *limits, struct err *err)
{
    int64_t bytes = JAIL_UNLIMITED;
    if (strcmp(text, "none") != 0 && (cli_read_size("memory", text, &bytes, err) < 0 ||
                                      !may_be(&(struct jail_limits){.memory_bytes = bytes})))
        return refuse("memory", text, MEMORY_TAKES, err);
    limits->memory_bytes = bytes;
    return 0;
}

static int read_pids(const char *text, struct jail_limits *limits, struct err *err)
{
    int64_t pids;
    if (!str_to_i64(str_of(text), 1, INT32_MAX, &pids) ||
        !may_be(&(struct jail_limits){.pids = pids}))
        return refuse("pids", text, PIDS_TAKES, err);
    limits->pids = pids;
    return 0;
}

static int read_cpus(const char *text, struct jail_limits *limits, struct err *err)
{
    int64_t milli = JAIL_UNLIMITED;
    double cores;
    if (strcmp(text, "none") != 0) {
        if (!str_to_f64(str_of(text), &cores) || !(cores >= 0.01 && cores <= 1024))
            return refuse("cpus", text, CPUS_TAKES, err);
        milli = (int64_t)(cores * 1000);
    }
    limits->cpu_milli = milli;
    return 0;
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
        return refuse("disk", text, DISK_TAKES, err);
    limits->disk_bytes = asked.disk_bytes;
    limits->disk_inodes = asked.disk_inodes;
    return 0;
}

/* What the configuration says holds where no option does. */
static int read_config(const struct cli_call *call, struct exec_request *request, struct err *err)
{
    struct jail_limits *limits = &request->plan.limits;
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    if (exec_net_read(call, config, request, err) < 0)
        return err_wrap(err, "exec");
    limits->memory_bytes = config->jail.memory_mb << 20;
    limits->pids = config->jail.pids;
    limits->cpu_milli = (int64_t)(config->jail.cpus * 1000);
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
    if (timeout != NULL && cli_read_time("timeout", timeout, &request->timeout_ms, err) < 0)
        return refuse("timeout", timeout, TIMEOUT_TAKES, err);
    request->limits_disk = cli_has(call, "disk");
    return 0;
}
