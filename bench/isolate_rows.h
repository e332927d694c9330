#pragma once

/* Parts of the isolate suite. */

#include "bench.h"

#define MUST(call)                                                                                 \
    do {                                                                                           \
        struct err err = {0};                                                                      \
        if ((call) < 0) {                                                                          \
            (void)fprintf(stderr, "%s: %s\n", #call, err.msg);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct buf;

/* A whole file of the source tree, appended. */
void isolate_read_file(const char *path, struct buf *out);

/* Rows that a Node process measures and prints (isolate_peers.mjs with these arguments, ending with
 * NULL). Paths of sources that it names are appended to `files`, a line each; NULL for none. */
void isolate_peers(struct bench *bench, const char *const node_flags[], const char *const args[],
                   struct buf *files);
/* Whole processes: node -e, deno eval, sandglass run. */
void isolate_processes(struct bench *bench);
/* TypeScript: the same sources in our stripper and in others. */
void isolate_strip(struct bench *bench);
