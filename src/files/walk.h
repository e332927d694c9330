#pragma once

/* Every entry below a directory, in no order, links not followed: what glob, grep and watch stand
 * on. Memory is bounded; what does not fit is counted, not visited. */

#include <pthread.h>

#include "files/internal.h"

struct err;

enum { FILES_WALK_PENDING_MAX = 16 << 20 };

struct files_walk {
    int dir_fd;   /* borrowed */
    unsigned how; /* FD_NO_XDEV or 0 */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        char **ptr;
        size_t len, cap;
    } pending; /* directories to read, as paths */
    size_t pending_bytes;
    size_t busy;  /* threads inside a directory, which may add more */
    bool stopped; /* a visitor has seen enough */
    uint64_t unread;
};

struct files_visitor {
    /* May the directory be read? NULL for yes. */
    bool (*enter)(void *ctx, int dir_fd, struct str path);
    /* Each entry but directories that are entered later: 0 to continue, 1 to stop, -1 for an error.
     * `path` is NUL-terminated and begins below the directory walked; its last component is in
     * `dir_fd`. `type` is a DT_*, never DT_UNKNOWN. Directories are visited before `enter`. */
    int (*visit)(void *ctx, int dir_fd, const char *name, struct str path, unsigned char type,
                 struct err *err);
    void *ctx;
};

void files_walk_init(struct files_walk *walk, int dir_fd, unsigned how, struct str start);
void files_walk_done(struct files_walk *walk);
/* Visits until nothing is left. Several threads may call it on one walk, each with its own visitor;
 * each returns when all is done. */
int files_walk_run(struct files_walk *walk, const struct files_visitor *visitor,
                   struct err *err) MUST_USE;
