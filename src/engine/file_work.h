#pragma once

/* Work on the files of a place, for file.c and file_stream.c. */

#include "engine/session_internal.h"

/* Somebody who needs a running place; the work counts until work_end. First member of the
 * caller's own struct. */
struct work {
    struct session_want session;
    struct want want;
    struct engine *engine;
    struct sandbox *sandbox; /* once it is there */
    void (*call)(struct work *work, const struct err *why);
};

/* `call` comes once, may be before this returns, unless this fails. */
int work_start(struct engine *engine, const struct engine_caller *caller,
               const struct file_place *place, struct work *work, struct err *err) MUST_USE;
/* A place that was made for a volume's files goes when nobody needs it. Twice does no harm. */
void work_end(struct work *work);

int file_check_path(struct str path, struct err *err) MUST_USE;
