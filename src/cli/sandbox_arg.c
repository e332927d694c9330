#include "cli/sandbox_arg.h"

#include "base/err.h"
#include "base/format/json.h"
#include "cli/remote.h"

static int put_memory(const struct cli_call *call, struct json_out *out, struct err *err)
{
    const char *text = cli_value(call, "memory");
    int64_t bytes = 0;
    if (text == NULL)
        return 0;
    if (cli_read_memory(text, false, &bytes, err) < 0)
        return -1;
    json_key(out, "memoryMb"), json_put_i64(out, bytes >> 20);
    return 0;
}

int sandbox_arg_put_size(const struct cli_call *call, const char *option, const char *member,
                         struct json_out *out, struct err *err)
{
    const char *text = cli_value(call, option);
    int64_t bytes = 0;
    if (text == NULL)
        return 0;
    if (cli_read_size(option, text, &bytes, err) < 0)
        return -1;
    if (bytes < 1 << 20)
        return err_set(err, ERR_INVALID, "--%s '%s' is too small: the minimum is 1m", option, text);
    json_key(out, member), json_put_i64(out, bytes >> 20);
    return 0;
}

static int put_cpus(const struct cli_call *call, struct json_out *out, struct err *err)
{
    const char *text = cli_value(call, "cpus");
    double cores = 0;
    if (text == NULL)
        return 0;
    if (!str_to_f64(str_of(text), &cores) || !(cores > 0))
        return err_set(err, ERR_INVALID, "--cpus '%.40s' is not a number of cores like 0.5 or 2",
                       text);
    json_key(out, "cpus"), json_put_f64(out, cores);
    return 0;
}

static bool has_limits(const struct cli_call *call)
{
    static const char *const options[] = {"memory", "cpus", "disk", "pids"};
    bool any = net_has_limits(call);
    for (size_t i = 0; i < countof(options); i++)
        any |= cli_value(call, options[i]) != NULL;
    return any;
}

int sandbox_arg_put_limits(const struct cli_call *call, struct json_out *out, struct err *err)
{
    if (!has_limits(call))
        return 0;
    json_key(out, "limits"), json_begin_object(out);
    if (put_memory(call, out, err) < 0 ||
        sandbox_arg_put_size(call, "disk", "diskMb", out, err) < 0 ||
        put_cpus(call, out, err) < 0 || remote_put_number(call, "pids", "pids", out, err) < 0 ||
        net_put_limits(call, out, err) < 0)
        return -1;
    json_end_object(out);
    return 0;
}

int sandbox_arg_put_time(const struct cli_call *call, const char *option, const char *member,
                         struct json_out *out, struct err *err)
{
    const char *text = cli_value(call, option);
    int64_t ms = 0;
    if (text == NULL)
        return 0;
    if (cli_read_limit(option, text, &ms, err) < 0)
        return -1;
    json_key(out, member), json_put_i64(out, ms);
    return 0;
}

static void put_snapshots(const struct cli_call *call, struct json_out *out)
{
    if (cli_value(call, "snapshot") == NULL)
        return;
    json_key(out, "snapshots"), json_begin_array(out);
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "snapshot") == 0)
            json_put_cstr(out, call->given[i].value);
    json_end_array(out);
}

int sandbox_arg_put(const struct cli_call *call, struct json_out *out, struct err *err)
{
    remote_put_text(call, "tier", out);
    remote_put_text(call, "runtime", out);
    remote_put_text(call, "checkpoints", out);
    put_snapshots(call, out);
    if (remote_put_pairs(call, "env", "env", out, err) < 0 ||
        remote_put_pairs(call, "label", "metadata", out, err) < 0 ||
        net_put_members(call, out, err) < 0 || sandbox_arg_put_limits(call, out, err) < 0)
        return -1;
    return sandbox_arg_put_time(call, "timeout", "timeoutMs", out, err);
}
