#pragma once

/* Documents are read in a confined process: converted, cut into chunks and terms.
 *
 * The process gets a few documents of one tenant in a file in memory, and writes a record of each
 * to another one. It has no other descriptor, no privilege, and a filter that allows memory,
 * reading, writing and exiting. A document that ends the process, or takes too long, is the one
 * whose record is missing: it is given up, and the next process goes on behind it. Records are
 * checked (search/document.h) before anything of them is used.
 *
 * Calls block: run them on a worker. */

#include <stdatomic.h>

#include "base/err.h"
#include "search/document.h"

enum {
    READER_BATCH_BYTES = 4 << 20, /* of documents for one process, but at least one */
    READER_BATCH_COUNT = 512,
    READER_CPU_SECONDS = 10,
    READER_WALL_MS = 60000,
    READER_MEMORY = 512 << 20,
    READER_FAILURES_MAX = 4, /* processes of one call that a document may end */
};

struct reader_options {
    const char *program;     /* whose main calls reader_main; NULL: "/proc/self/exe" */
    int64_t wall_ms;         /* 0: READER_WALL_MS */
    const atomic_bool *stop; /* may be NULL; set: the call ends with CANCELED */
};

struct reader_answer {
    struct err why; /* NONE: `document` was read */
    struct document document;
};

/* Reads documents of one tenant. Answers, in order, point into `arena` and the texts of `asks`.
 * Fails when no process can be started, and with CANCELED. */
int reader_read(const struct reader_options *options, const struct document_ask *asks, size_t count,
                struct arena *arena, struct reader_answer *ret_answers, struct err *err) MUST_USE;

/* The process itself: argv[0] of the program, whose main calls reader_main then. */
#define READER_PROGRAM "sandglass-reader"
int reader_main(void);
