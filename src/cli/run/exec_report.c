/* What is said about a command that ran: exit code and JSON. */

#include <signal.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/run/exec.h"

enum {
    NOT_MADE = 125, /* what a shell's users know: the program that was to start it has failed */
    NOT_RUNNABLE = 126,
    NOT_FOUND = 127
};

void exec_keep(struct exec_kept *kept, struct str bytes)
{
    kept->total += (int64_t)bytes.len;
    excerpt_put(&kept->text, bytes, DEFENDED(LIMIT_OUTPUT) ? EXCERPT_STREAM_MAX : SIZE_MAX / 4);
}

static void put_stream(struct json_out *json, const char *name, const char *count_name,
                       const struct exec_kept *kept, bool *truncated)
{
    AUTO_BUF struct buf text = {0};
    struct excerpt_view view = excerpt_view(&kept->text, 0);
    excerpt_view_put(&view, "left out: without --json all of it is printed", &text);
    *truncated |= view.cut > 0;
    json_key(json, name), json_put_str(json, buf_str(&text));
    json_key(json, count_name), json_put_i64(json, kept->total);
}

static const char *const reasons[] = {
    [EXEC_EXITED] = "exit", [EXEC_SIGNALED] = "signal", [EXEC_TIMED_OUT] = "timeout",
    [EXEC_OOM] = "oom",     [EXEC_GONE] = "gone",
};

static void exec_report_put_result(struct json_out *json, const struct exec_result *result)
{
    bool truncated = false;
    json_key(json, "exitCode"), json_put_i64(json, exec_exit_code(result));
    json_key(json, "signal");
    if (result->exit.signal != 0)
        json_put_i64(json, result->exit.signal);
    else
        json_put_null(json);
    json_key(json, "reason"), json_put_cstr(json, reasons[result->reason]);
    put_stream(json, "stdout", "stdoutBytes", &result->out, &truncated);
    put_stream(json, "stderr", "stderrBytes", &result->err, &truncated);
    json_key(json, "truncated"), json_put_bool(json, truncated);
}

static void put_figures(struct json_out *json, const struct exec_result *result)
{
    json_key(json, "timingMs");
    json_begin_object(json);
    json_key(json, "create"), json_put_f64(json, (double)result->make_ns / 1e6);
    json_key(json, "run"), json_put_f64(json, (double)result->exit.wall_ns / 1e6);
    json_key(json, "total"), json_put_f64(json, (double)result->total_ns / 1e6);
    json_key(json, "cpuUser"), json_put_f64(json, (double)result->exit.user_us / 1e3);
    json_key(json, "cpuSystem"), json_put_f64(json, (double)result->exit.system_us / 1e3);
    json_end_object(json);
    json_key(json, "memoryPeakBytes");
    if (result->stats.memory_peak >= 0)
        json_put_i64(json, result->stats.memory_peak);
    else
        json_put_i64(json, result->exit.peak_kib * 1024); /* of the command only */
    json_key(json, "oomKills"), json_put_i64(json, MAX(result->stats.oom_kills, (int64_t)0));
    json_key(json, "unlimited");
    json_begin_array(json);
    if (result->memory_unlimited)
        json_put_cstr(json, "memory");
    if (result->cpus_unlimited)
        json_put_cstr(json, "cpus");
    json_end_array(json);
}

void exec_put_blocked(struct json_out *json, const struct exec_result *result)
{
    json_key(json, "blocked");
    json_begin_array(json);
    VEC_EACH (blocked, &result->blocked) {
        json_begin_object(json);
        json_key(json, "host"), json_put_cstr(json, blocked->host);
        json_key(json, "port");
        if (blocked->port != 0)
            json_put_i64(json, blocked->port);
        else
            json_put_null(json);
        json_key(json, "reason"), json_put_cstr(json, blocked->reason);
        json_key(json, "message"), json_put_cstr(json, blocked->text);
        json_end_object(json);
    }
    json_end_array(json);
}

void exec_put_json(struct buf *out, const struct exec_result *result, const struct err *failed)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    if (failed == NULL) {
        exec_report_put_result(&json, result);
        put_figures(&json, result);
        exec_put_blocked(&json, result);
    } else {
        json_key(&json, "exitCode"), json_put_i64(&json, exec_refused_code(failed));
        json_key(&json, "reason"), json_put_cstr(&json, "not_started");
        json_key(&json, "error");
        json_begin_object(&json);
        json_key(&json, "code"), json_put_cstr(&json, err_wire_name(failed->code));
        json_key(&json, "message"), json_put_cstr(&json, failed->msg);
        json_end_object(&json);
    }
    json_end_object(&json);
    buf_put_char(out, '\n');
}

int exec_exit_code(const struct exec_result *result)
{
    if (result->reason == EXEC_TIMED_OUT)
        return EXIT_TIMEOUT;
    if (result->exit.signal != 0)
        return EXIT_SIGNALED + result->exit.signal;
    return result->exit.code;
}

int exec_refused_code(const struct err *err)
{
    switch (err->code) {
    case ERR_PROGRAM_NOT_FOUND:
        return NOT_FOUND;
    case ERR_NOT_EXECUTABLE:
    case ERR_EXEC_FORMAT:
        return NOT_RUNNABLE;
    default:
        return NOT_MADE;
    }
}

void exec_result_done(struct exec_result *result)
{
    excerpt_done(&result->out.text);
    excerpt_done(&result->err.text);
    vec_done(&result->blocked);
}
