#include "engine/time_limit.h"

#include "base/format/json.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

static const struct {
    const char *name, *whose, *remedy;
    const char *option; /* what sets it where no server runs */
} rows[] = {
    [TIME_LIMIT_BY_NOBODY] = {NULL, "", "", ""},
    [TIME_LIMIT_BY_CALL] = {"timeoutMs", "the limit of the call (timeoutMs, --timeout)",
                            "give a larger one, or 0 for none", "--timeout"},
    [TIME_LIMIT_BY_TOOL] = {"tool", "the default of the tool",
                            "give timeoutMs for more time, 0 for no limit, or run it in the "
                            "background",
                            ""},
    [TIME_LIMIT_BY_SANDBOX] = {"limits.execMs", "limits.execMs of the sandbox",
                               "give the call a timeoutMs (--timeout), 0 for no limit", ""},
    [TIME_LIMIT_BY_COMMANDS] = {"jail.command_seconds",
                                "jail.command_seconds of the server's configuration",
                                "give the call a timeoutMs (--timeout), 0 for no limit",
                                "jail.command_seconds of the configuration"},
    [TIME_LIMIT_BY_SESSIONS] = {"sandbox.timeout_seconds",
                                "sandbox.timeout_seconds of the server's configuration",
                                "give the call a timeoutMs (--timeout), 0 for no limit", ""},
    [TIME_LIMIT_BY_ISOLATES] = {"isolate.timeout_ms", "isolate.timeout_ms of the configuration",
                                "give the call a timeoutMs (--timeout), 0 for no limit", ""},
};
_Static_assert(countof(rows) == TIME_LIMIT_BY_COUNT, "a row for each");

const char *time_limit_name(enum time_limit_by by)
{
    return rows[by].name;
}

static struct time_limit limit_of(int64_t ms, enum time_limit_by by)
{
    return ms > 0 ? (struct time_limit){ms, by} : (struct time_limit){0};
}

struct time_limit time_limit_of_call(int64_t asked_ms, struct time_limit fallback)
{
    return asked_ms != 0 ? limit_of(asked_ms, TIME_LIMIT_BY_CALL) : fallback;
}

struct time_limit time_limit_of_config(const struct config *config)
{
    return limit_of(config->jail.command_seconds * 1000, TIME_LIMIT_BY_COMMANDS);
}

struct time_limit time_limit_of_command(const struct sandbox *sandbox, int64_t asked_ms,
                                        bool is_detached)
{
    struct time_limit limit = {0};
    int64_t own_ms = sandbox->info.limits.exec_ms;
    if (is_detached)
        limit = (struct time_limit){0};
    else if (own_ms != 0)
        limit = limit_of(own_ms, TIME_LIMIT_BY_SANDBOX);
    else
        limit = time_limit_of_config(sandbox->engine->config);
    return time_limit_of_call(asked_ms, limit);
}

struct time_limit time_limit_of_cells(const struct sandbox *sandbox)
{
    const struct config *config = sandbox->engine->config;
    int64_t own_ms = sandbox->info.limits.exec_ms;
    bool is_isolate = sandbox->info.tier == ENGINE_TIER_ISOLATE;
    bool is_session = sandbox->info.session.len > 0 &&
                      !(is_isolate && config_is_default(config, "sandbox.timeout_seconds"));
    if (own_ms != 0)
        return limit_of(own_ms, TIME_LIMIT_BY_SANDBOX);
    if (is_session)
        return limit_of(config->sandbox.timeout_seconds * 1000, TIME_LIMIT_BY_SESSIONS);
    return is_isolate ? limit_of(config->isolate.timeout_ms, TIME_LIMIT_BY_ISOLATES)
                      : (struct time_limit){0};
}

void time_limit_show(struct sandbox *sandbox)
{
    sandbox->info.cell_ms = time_limit_of_cells(sandbox).ms;
    sandbox->info.command_ms = time_limit_of_command(sandbox, 0, false).ms;
}

void time_put_duration(int64_t ms, struct buf *out)
{
    enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };
    if (ms % SECOND != 0 || ms == 0)
        buf_printf(out, "%lld ms", (long long)ms);
    else if (ms % HOUR == 0)
        buf_printf(out, "%lld h", (long long)(ms / HOUR));
    else if (ms % MINUTE == 0)
        buf_printf(out, "%lld min", (long long)(ms / MINUTE));
    else
        buf_printf(out, "%lld s", (long long)(ms / SECOND));
}

void time_limit_put(const struct time_limit *limit, struct buf *out)
{
    buf_put_cstr(out, "after ");
    time_put_duration(limit->ms, out);
    if (limit->by != TIME_LIMIT_BY_NOBODY)
        buf_printf(out, ", %s; %s", rows[limit->by].whose, rows[limit->by].remedy);
}

void time_limit_put_option(const struct time_limit *limit, struct buf *out)
{
    buf_printf(out, "after %lld ms, the limit of %s", (long long)limit->ms, rows[limit->by].option);
}

void time_limit_put_json(const struct time_limit *limit, struct json_out *out)
{
    if (limit->ms == 0)
        return;
    json_key(out, "timeoutMs"), json_put_i64(out, limit->ms);
    json_key(out, "timeoutBy"), json_put_cstr(out, time_limit_name(limit->by));
}

struct time_limit time_limit_read_json(const struct json_t *object)
{
    struct time_limit limit = {0};
    struct str name = {0};
    if (!json_to_i64(json_get(object, "timeoutMs"), &limit.ms) || limit.ms <= 0)
        return (struct time_limit){0};
    (void)!json_to_str(json_get(object, "timeoutBy"), &name);
    for (enum time_limit_by by = TIME_LIMIT_BY_CALL; by < TIME_LIMIT_BY_COUNT; by++)
        if (str_eq(name, str_of(rows[by].name)))
            limit.by = by;
    return limit;
}
