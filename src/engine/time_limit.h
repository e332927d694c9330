#pragma once

/* Limits of time for one command or one evaluation: how long, who set the limit, and what the
 * answer says when it was reached. */

#include "base/base.h"

struct buf;
struct config;
struct json_out;
struct json_t;
struct sandbox;

/* Who set it. */
enum time_limit_by {
    TIME_LIMIT_BY_NOBODY,   /* there is no limit */
    TIME_LIMIT_BY_CALL,     /* timeoutMs of the call */
    TIME_LIMIT_BY_TOOL,     /* the default of the tool that made the call */
    TIME_LIMIT_BY_SANDBOX,  /* limits.execMs of the sandbox */
    TIME_LIMIT_BY_COMMANDS, /* jail.command_seconds of the configuration */
    TIME_LIMIT_BY_SESSIONS, /* sandbox.timeout_seconds of the configuration */
    TIME_LIMIT_BY_ISOLATES, /* isolate.timeout_ms of the configuration */
    TIME_LIMIT_BY_COUNT
};

struct time_limit {
    int64_t ms; /* 0: none */
    enum time_limit_by by;
};

/* "timeoutMs", "limits.execMs", "jail.command_seconds", ...; NULL without a limit. */
const char *time_limit_name(enum time_limit_by by);

/* Of a call: `asked_ms` is 0 when the call gives none, -1 when it asks for no limit. */
struct time_limit time_limit_of_command(const struct sandbox *sandbox, int64_t asked_ms,
                                        bool is_detached);
/* Of a foreground command, by the configuration. */
struct time_limit time_limit_of_config(const struct config *config);
/* Of one evaluation in the sandbox whose call gives no limit. */
struct time_limit time_limit_of_cells(const struct sandbox *sandbox);
struct time_limit time_limit_of_call(int64_t asked_ms, struct time_limit fallback);

/* Into what the outside sees of it. */
void time_limit_show(struct sandbox *sandbox);

/* "after 2 s, the limit of the call (timeoutMs); give ... for more". */
void time_limit_put(const struct time_limit *limit, struct buf *out);
/* For a command line that runs it without a server, where limits are options: "after 2000 ms, the
 * limit of --timeout". */
void time_limit_put_option(const struct time_limit *limit, struct buf *out);
/* "2 s", "500 ms", "5 min". */
void time_put_duration(int64_t ms, struct buf *out);

/* Members of a JSON object, for rows of the store. */
void time_limit_put_json(const struct time_limit *limit, struct json_out *out);
struct time_limit time_limit_read_json(const struct json_t *object);
