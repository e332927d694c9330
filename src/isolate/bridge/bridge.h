#pragma once

/* Bridges: host functions that code in an isolate may call as api.NAME(...). Each returns a
 * promise.
 *
 * One row says everything about one bridge; from it come the names in `api`, the check of
 * arguments, the TypeScript declarations and the page of documentation. A call gets its arguments
 * as JSON that has passed its schemas, runs on the loop, ends within its time limit and within what
 * is left of the isolate's deadline, and can be dropped at any moment. What it gives is JSON. */

#include "base/buf.h"

struct bridge_call;
struct bridge_set;
struct err;
struct json_t;
struct loop;

enum {
    BRIDGE_PARAMS_MAX = 4,
    BRIDGES_MAX = 64,
    BRIDGE_NAME_MAX = 63,
    BRIDGE_ARGS_MAX = 12 << 20, /* bytes of JSON */
    BRIDGE_RESULT_MAX = 16 << 20,
};

struct bridge_param {
    const char *name;
    const char *schema; /* base/format/schema.h; its description goes into the documentation */
    bool is_optional;   /* may be left out or null; those behind it too */
};

struct bridge {
    const char *name;        /* an identifier */
    const char *description; /* plain sentences */
    struct bridge_param params[BRIDGE_PARAMS_MAX];
    const char *returns; /* TypeScript: what the promise gives */
    const char *types;   /* TypeScript declarations that `returns` needs; NULL for none */
    const char *example; /* JavaScript */
    int64_t timeout_ms;
    /* Begins a call; bridge_done or bridge_fail ends it, now or later, once. -1 with `err` is the
     * same as bridge_fail. */
    int (*start)(struct bridge_call *call, struct err *err);
    /* Lets go of what the call holds in bridge_state, finished or not. May be NULL. */
    void (*stop)(struct bridge_call *call);
};

/* For handlers. */
const struct json_t *bridge_arg(const struct bridge_call *call, size_t index); /* NULL: left out */
void *bridge_services(const struct bridge_call *call);
int64_t bridge_left_ms(const struct bridge_call *call);
void **bridge_state(struct bridge_call *call); /* the handler's own pointer; NULL at first */
void bridge_done(struct bridge_call *call, struct str json);
void bridge_fail(struct bridge_call *call, const struct err *why);

/* For code that runs isolates. */

/* A set of rows, which it borrows: the built-in ones (ending with NULL) and any that the embedding
 * program adds. INVALID for a row that could not work, CONFLICT for a name that is taken. */
int bridge_set_new(const struct bridge *const *rows, struct bridge_set **ret_set,
                   struct err *err) MUST_USE;
int bridge_set_add(struct bridge_set *set, const struct bridge *row, struct err *err) MUST_USE;
struct bridge_set *bridge_set_free(struct bridge_set *set);
DEFINE_FREEP(bridge_set)
#define AUTO_BRIDGE_SET AUTO(bridge_set_freep)

/* In their order, ending with NULL. */
const char *const *bridge_set_names(const struct bridge_set *set);

/* `args` is a JSON array. INVALID ("api.getWeather: latitude must be ...") or NOT_FOUND when the
 * call cannot be: a TypeError in the script. Otherwise `settle` comes once, later: with the result,
 * or with {"name", "message", "code"} of an Error. `left_ms` is the remaining time of the run.
 * `services` is what the rows' handlers expect. */
typedef void bridge_settle(void *ctx, bool is_ok, struct str json);
int bridge_call_start(struct bridge_set *set, struct loop *loop, void *services, struct str name,
                      struct str args, int64_t left_ms, bridge_settle *settle, void *ctx,
                      struct bridge_call **ret_call, struct err *err) MUST_USE;
/* Also in `settle`, and before it: then `settle` never comes. */
struct bridge_call *bridge_call_free(struct bridge_call *call);
DEFINE_FREEP(bridge_call)

/* For people and tools: every bridge as text, JSON, TypeScript and docs/BRIDGES.md. */
void bridge_put_text(const struct bridge_set *set, struct buf *out);
void bridge_put_json(const struct bridge_set *set, struct buf *out);
void bridge_put_dts(const struct bridge_set *set, struct buf *out);
void bridge_put_docs(const struct bridge_set *set, struct buf *out);
