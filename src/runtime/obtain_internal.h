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

/* In a jail that has no network and sees nothing but `tree`: unpacks the archive into its `new`,
 * and runs `program --version`, whose word must hold `version`. */
int obtain_unpack(const char *tree, int archive_fd, struct err *err) MUST_USE;
int obtain_try(const char *tree, const char *program, const char *version,
               struct err *err) MUST_USE;

/* The registry that this machine uses for npm packages, with a '/' at its end. */
int obtain_registry(struct buf *out, struct err *err) MUST_USE;

/* Runs a program of the host, looked up in PATH, until its end; `out` takes what it writes, or NULL
 * leaves its output on our standard error. NOT_FOUND when there is none of that name, UNAVAILABLE
 * when it fails. */
int obtain_run(const char *const *argv, struct buf *out, struct err *err) MUST_USE;

/* Nobody writes to it any more. Links are left alone. */
int obtain_seal(int dir_fd, struct err *err) MUST_USE;
