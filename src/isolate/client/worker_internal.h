#pragma once

/* Only for the worker*.c files. */

#include <sys/types.h>

#include "isolate/client/worker.h"
#include "isolate/wire/wire.h"

enum {
    WORKER_REPLY_MS = 10000,      /* for what runs no script */
    WORKER_KILL_AFTER_MS = 500,   /* past a run's deadline: its own two alarms have failed */
    WORKER_QUEUE_SPARE = 4 << 20, /* for short answers, when long ones have filled the queue */
    WORKER_CALLS_MAX =
        4096 /* without an answer: an honest one has BRIDGES_PENDING_MAX in an isolate */
};

/* What was begun: nothing, a run (then console and bridge calls come before its end), or a request
 * with one answer. */
enum worker_state { STATE_IDLE, STATE_RUN, STATE_ASKED };

struct worker {
    int fd;
    pid_t pid;    /* a child of ours; else 0 */
    int pidfd;    /* another process's child; else -1 */
    pid_t number; /* of either, for messages */
    bool is_dead;
    bool is_new; /* has not said yet that it is ready */
    uint64_t runs;
    enum worker_state state;
    enum isolate_wire_type expected; /* in STATE_ASKED */
    int64_t due_ms;                  /* monotonic; killed then */
    uint64_t lines_left;             /* console calls that an honest worker may still make */
    size_t line_max;                 /* bytes of one, with what is said of those cut off */
    uint32_t calls_open;             /* bridge calls without an answer */
    struct isolate_result result;    /* of the last run */
    struct buf in, out;
    size_t given; /* bytes of the frame at the front of `in` that the last event borrows from */
    /* Bytes to be sent. The worker may be busy, or may wait for us to read: a blocking write could
     * deadlock. */
    struct buf queue;
    size_t queue_at; /* sent so far */
};

/* Kills and reaps; the socket is closed. */
void worker_end(struct worker *worker);
/* A forked child becomes a worker. Without an `engine` it makes one for `options`. */
NORETURN void worker_become(int fd, const struct worker_options *options,
                            struct isolate_engine *engine);
