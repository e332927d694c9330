#pragma once

/* What `sandglass runtime` and `sandglass model` share: both list, add and remove what is in the
 * data directory. */

#include "cli/cli.h"
#include "runtime/obtain.h"

struct buf;
struct json_out;

/* One row of a kind, and what the data directory has of it. */
struct installed {
    const void *row;
    enum runtime_state state;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
};

/* Runtimes or models. */
struct installed_kind {
    const char *head;                /* of the list, with its newline */
    const void *(*at)(size_t index); /* NULL behind the last */
    int (*find)(struct str name, const void **ret_row, struct err *err);
    void (*look)(const char *data_dir, struct installed *look); /* at its row */
    int (*add)(const void *row, const struct obtain *how, bool *ret_added, struct err *err);
    int (*remove)(const void *row, const char *data_dir, struct err *err);
    int (*check)(const char *dir, struct err *err); /* for struct obtain; may be NULL */
    void (*put_json)(const struct installed *look, struct json_out *json);
    void (*put_line)(const struct installed *look, struct buf *out);
    void (*put_name)(const struct installed *look, struct buf *out); /* for a message */
};

const char *installed_state_name(enum runtime_state state);

/* The verbs. */
extern const struct cli_option installed_add_options[];
int installed_list(const struct cli_call *call, const struct installed_kind *kind, struct err *err);
int installed_add(const struct cli_call *call, const struct installed_kind *kind, struct err *err);
int installed_remove(const struct cli_call *call, const struct installed_kind *kind,
                     struct err *err);
