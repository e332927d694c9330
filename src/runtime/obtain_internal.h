#pragma once

/* Between the files of runtime/obtain*.c. */

#include "runtime/obtain.h"

struct buf;

/* What is obtained: a runtime, or a model of the server. */
struct obtain_item {
    const char *noun; /* "runtime": in messages */
    const char *area; /* below the data directory: AREA/incoming and AREA/KIND/NAME */
    const char *kind;
    const char *name, *version;
    const char *package, *integrity; /* of npm */
    const char *program;             /* that must run; NULL: obtain.check looks at the files */
    const struct runtime *system;    /* what mmdebstrap makes; NULL: a package */
};

/* One addition under way. */
struct obtaining {
    const struct obtain_item *item;
    const struct obtain *how;
    char incoming[RUNTIME_PATH_MAX]; /* the directory */
    char tree[RUNTIME_PATH_MAX];     /* incoming/NAME.tree, empty at first */
};

void obtain_say(const struct obtaining *obtaining, const char *step, uint64_t have, uint64_t total);

/* Runtimes and models are added and removed by these; see runtime_add and runtime_remove. */
void obtain_dir(const struct obtain_item *item, const char *data_dir, char out[RUNTIME_PATH_MAX]);
bool obtain_added(const struct obtain_item *item, const char *data_dir,
                  char version[RUNTIME_VERSION_SIZE]);
int obtain_add(const struct obtain_item *item, const struct obtain *how, bool *ret_added,
               struct err *err) MUST_USE;
int obtain_remove(const struct obtain_item *item, const char *data_dir, struct err *err) MUST_USE;

/* Each leaves in `ret_ready` the directory that becomes the runtime. */
int obtain_npm(struct obtaining *obtaining, char ret_ready[RUNTIME_PATH_MAX],
               struct err *err) MUST_USE;
int obtain_debian(struct obtaining *obtaining, char ret_ready[RUNTIME_PATH_MAX],
                  struct err *err) MUST_USE;

/* In a jail that has no network and sees nothing but `tree`: unpacks the archive into its `new`,
 * and runs `program --version`, whose word must hold `version`. */
int obtain_unpack(const char *tree, int archive_fd, struct err *err) MUST_USE;
int obtain_try(const char *tree, const char *program, const char *version,
               struct err *err) MUST_USE;
/* The same for an archive that we have made, whose links lead where they may, and for a tree that
 * is the root: `program -c proof`. */
int obtain_untar(const char *tree, int archive_fd, struct err *err) MUST_USE;
int obtain_try_root(const char *root, const struct runtime *runtime, struct err *err) MUST_USE;

/* Runs a program of the host, looked up in PATH, until its end; `out` takes what it writes, or NULL
 * leaves its output on our standard error. NOT_FOUND when there is no such program, UNAVAILABLE
 * when it fails. */
int obtain_run(const char *const *argv, struct buf *out, struct err *err) MUST_USE;

/* The same with its output in `out_fd`; `line` is called for each line of its standard error. */
int obtain_run_telling(const char *const *argv, int out_fd,
                       void (*line)(void *ctx, struct str line), void *ctx,
                       struct err *err) MUST_USE;

/* Removes incoming/NAME. NOT_FOUND if it does not exist. */
int obtain_discard(const struct obtaining *obtaining, const char *name, struct err *err) MUST_USE;

/* Makes it read-only. Links are not changed. */
int obtain_seal(int dir_fd, struct err *err) MUST_USE;
