#pragma once

/* Work on the files of a place, for file.c and file_stream.c. */

#include "engine/file/file.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/session/session_internal.h"

/* An operation that needs a running place; it counts as work of the sandbox until file_work_end.
 * First member of the caller's own struct. */
struct file_work {
    struct session_want session;
    struct want want;
    struct engine *engine;
    struct sandbox *sandbox; /* once it exists */
    const char *changes;     /* as of struct want */
    void (*call)(struct file_work *work, const struct err *why);
};

/* `call` comes once, may be before this returns, unless this fails. */
int file_work_start(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, struct file_work *work,
                    struct err *err) MUST_USE;
/* Ends a place that was made for a volume's files when no request needs it. May be called twice. */
void file_work_end(struct file_work *work);

int file_check_path(struct str path, struct err *err) MUST_USE;
