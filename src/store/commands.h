#pragma once

/* Commands that are over: read one at a time or by the page, counted, and dropped when their time
 * has come. Part of store/store.h.
 *
 * A command's row has `state` 1 once it has ended. Call-backs come on the loop's thread, in the
 * order of the calls and of the batches around them; what they are given is borrowed. */

#include "store/tables.h"

struct err;
struct store;

enum {
    STORE_COMMANDS_DROPPED = 500, /* at most, by one call: the store's thread has other work */
};

/* At start, before the loop runs: the commands that had not ended. */
int store_each_running(struct store *store, void (*call)(void *ctx, const void *row), void *ctx,
                       struct err *err) MUST_USE;
/* At start: for each tenant, how many have ended and how much is kept of their logs. */
int store_count_commands(struct store *store,
                         void (*call)(void *ctx, struct str tenant, int64_t count, int64_t bytes),
                         void *ctx, struct err *err) MUST_USE;
/* The same rules; 0 if no command exists. */
int store_last_command(struct store *store, int64_t *ret_order, struct err *err) MUST_USE;

typedef void store_commands_done(void *ctx, const struct store_command *rows, size_t count,
                                 const struct err *why);
/* One row, or none. */
void store_read_command(struct store *store, struct str id, store_commands_done *done, void *ctx);
/* Up to `limit` of a tenant behind `after`; of one sandbox or of all (empty). */
void store_read_commands(struct store *store, struct str tenant, struct str sandbox, int64_t after,
                         size_t limit, store_commands_done *done, void *ctx);

/* Which commands of a tenant to delete: those that ended before a date, and then the oldest, until
 * a number of commands or of bytes of logs is deleted. */
struct store_drop {
    struct str tenant;
    int64_t before_ms;
    uint64_t count, bytes;
};
struct store_dropped {
    const struct str *ids;
    size_t count;
    uint64_t bytes; /* of logs */
    bool is_all;    /* else: call again */
};
typedef void store_drop_done(void *ctx, const struct store_dropped *dropped, const struct err *why);
void store_drop_commands(struct store *store, const struct store_drop *drop, store_drop_done *done,
                         void *ctx);
