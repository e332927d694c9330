#pragma once

/* Between the files of runtime/obtain*.c. */

#include "runtime/obtain.h"

struct buf;

/* One addition under way. */
struct obtaining {
    const struct runtime *runtime;
    const struct obtain *how;
    char incoming[RUNTIME_PATH_MAX]; /* the directory */
    char tree[RUNTIME_PATH_MAX];     /* incoming/NAME.tree, empty at first */
};

void obtain_say(const struct obtaining *obtaining, const char *step, uint64_t have, uint64_t total);

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
 * leaves its output on our standard error. NOT_FOUND when there is none of that name, UNAVAILABLE
 * when it fails. */
int obtain_run(const char *const *argv, struct buf *out, struct err *err) MUST_USE;

/* The same with its output in `out_fd`; `line` hears each line of its standard error. */
int obtain_run_telling(const char *const *argv, int out_fd,
                       void (*line)(void *ctx, struct str line), void *ctx,
                       struct err *err) MUST_USE;

/* Takes away incoming/NAME. NOT_FOUND when there is none. */
int obtain_discard(const struct obtaining *obtaining, const char *name, struct err *err) MUST_USE;

/* Nobody writes to it any more. Links are left alone. */
int obtain_seal(int dir_fd, struct err *err) MUST_USE;
