#pragma once

/* Verbs that use a running server, through sdk/c as any customer would. */

#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "sandglass.h"

/* Options of every such verb. */
#define REMOTE_OPTIONS                                                                             \
    CLI_OPTION_JSON,                                                                               \
        {0, "url", "URL", "Server address (default: SANDGLASS_URL, else the local server)"},       \
    {                                                                                              \
        0, "cacert", "FILE",                                                                       \
            "Trust this certificate authority (default: SSL_CERT_FILE, else the system's)"         \
    }
extern const struct cli_option remote_only[];

/* A verb that takes exactly `count` arguments and says all in its summary. */
#define REMOTE_VERB(symbol, verb, arguments, text, opts, count, call)                              \
    const struct cli_verb symbol = {.name = verb,                                                  \
                                    .args = arguments,                                             \
                                    .summary = text,                                               \
                                    .options = opts,                                               \
                                    .args_min = count,                                             \
                                    .args_max = count,                                             \
                                    .run = call}

/* Opens the client: --url, SANDGLASS_URL and SANDGLASS_TOKEN, else the server that runs on the
 * configuration's data directory, or would; and its token file. UNAUTHORIZED when no token
 * is found. */
int remote_open(const struct cli_call *call, sg_client **ret_client, struct err *err) MUST_USE;
static inline void remote_closep(sg_client **client)
{
    sg_close(*client);
    *client = NULL;
}
#define AUTO_CLIENT AUTO(remote_closep)

/* The client's last failure as an error of ours. */
int remote_failed(const sg_client *client, struct err *err);

/* The id of the sandbox that `given` names: by its id or name, or by those of a session, if no
 * sandbox has them or behind "session:". The session's sandbox is created or resumed when needed,
 * as for the session's own verbs; without `wakes` a dormant session is a CONFLICT. */
int remote_find_sandbox(const struct cli_call *call, const char *given, bool wakes,
                        struct buf *ret_id, struct err *err) MUST_USE;

/* Whether `given` names a sandbox or a session, as above, for verbs that both have. `ret_name` is
 * what the routes of the one or the other take; a session stays dormant. */
int remote_find_kind(const struct cli_call *call, const char *given, bool *ret_is_session,
                     struct buf *ret_name, struct err *err) MUST_USE;

/* One request; the answer parsed. `ret_json` may be NULL. */
int remote_call(sg_client *client, const char *method, const char *path, const char *body,
                struct json_t **ret_json, struct err *err) MUST_USE;

/* How a number is shown. */
enum remote_form {
    REMOTE_AS_IS,
    REMOTE_TIME, /* milliseconds: "5m"; 0 or less: "none" */
    REMOTE_SIZE, /* MiB */
};

/* A column of a table for people: member ("state", "limits.memoryMb") and head; without a head for
 * the first column the table has none. An object's members are shown as NAME=VALUE. */
struct remote_column {
    const char *member, *head;
    enum remote_form form;
};

/* Asks, then prints: with --json the answer as it came; else a table of `list`'s items, or of the
 * answer itself when `list` is NULL; nothing without columns. */
int remote_show(const struct cli_call *call, const char *method, const char *path, const char *body,
                const char *list, const struct remote_column *columns, struct err *err) MUST_USE;
/* One thing by GET, as a block: "state: running" and so on. */
int remote_show_one(const struct cli_call *call, const char *path,
                    const struct remote_column *columns, struct err *err) MUST_USE;
/* The same by POST for what was just made: only its id, except on a terminal. */
int remote_show_made(const struct cli_call *call, const char *path, const char *body,
                     const struct remote_column *columns, struct err *err) MUST_USE;
/* On a terminal these columns, elsewhere the id without a head. */
const struct remote_column *remote_made_columns(const struct remote_column *columns);
void remote_put_table(const struct json_t *rows, const struct remote_column *columns,
                      struct buf *out);
/* A line for each member that is there. */
void remote_put_block(const struct json_t *object, const struct remote_column *columns,
                      struct buf *out);
/* A list of texts, one a line. */
void remote_put_lines(const struct json_t *texts, struct buf *out);

/* What an option was given as a member of a body, left out when it was not: under its own name, or
 * as a number under another. */
void remote_put_text(const struct cli_call *call, const char *option, struct json_out *out);
int remote_put_number(const struct cli_call *call, const char *option, const char *member,
                      struct json_out *out, struct err *err) MUST_USE;
/* K=V of a repeated option as an object, left out when there are none. */
int remote_put_pairs(const struct cli_call *call, const char *option, const char *member,
                     struct json_out *out, struct err *err) MUST_USE;

/* "/v1/sandboxes/%s/pause" with the argument escaped, in `out`. */
void remote_path(struct buf *out, const char *format, const char *argument);
/* A path and its query: ?path=... */
void remote_file_path(struct buf *out, const char *sandbox, const char *route, const char *path);
/* Member text, "" when absent. */
struct str remote_text(const struct json_t *object, const char *member);
