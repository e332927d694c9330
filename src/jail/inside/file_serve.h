#pragma once

/* File operations inside a jail, from the question to the answer: what init and its helper share.
 *
 * All of it runs as the jail's uid in its mount namespace, under the filter that tenants have, so
 * a path can lead nowhere that they could not go themselves. */

#include "jail/wire/file_wire.h"

struct err;
struct files;

/* Where answers go: init's socket to the owner of the jail, or a process's socket to init. */
struct file_reply {
    int fd;
    uint32_t id;
    struct buf out;
    struct buf record;
    struct buf bytes; /* an answer may borrow them */
};

void file_reply_init(struct file_reply *reply, int fd, uint32_t id);
void file_reply_done(struct file_reply *reply);

/* Records are collected into parts of fair size. file_part_next gives an empty one to fill;
 * file_part_add counts it; file_part_flush sends what there is, an empty part with `always`. */
struct buf *file_part_next(struct file_reply *reply);
int file_part_add(struct file_reply *reply, struct err *err) MUST_USE;
int file_part_flush(struct file_reply *reply, bool always, struct err *err) MUST_USE;

/* One verb. `data_fd` came with the question; -1: none did. */
typedef int file_verb(struct files *files, const struct jail_file *question, int data_fd,
                      struct file_reply *reply, struct jail_file_answer *answer, struct err *err);

/* Who does the work. */
enum file_worker {
    FILE_INLINE, /* init itself: bounded work on what cannot block */
    FILE_CHILD,  /* a process forked from init */
    FILE_HELPER, /* the helper program: needs a heavy library */
};

struct file_row {
    enum jail_file_verb verb;
    enum file_worker worker;
    bool needs_fd;
    file_verb *serve; /* NULL: not in this program */
};

/* NULL for an unknown verb. Files of the verbs: file_verbs.c, file_heavy.c. */
const struct file_row *file_row_of(uint32_t verb);
/* Like the row's worker, unless this very question asks for more or for little. */
enum file_worker file_worker_of(const struct file_row *row, const struct jail_file *question);

/* Serves it whole and sends the last answer. Fails only when that cannot be sent. */
int file_serve(const struct file_row *row, const struct jail_file *question, int data_fd,
               struct file_reply *reply, struct err *err) MUST_USE;
int file_send_failed(struct file_reply *reply, const struct err *why, struct err *err) MUST_USE;

/* A pipe, socket or file that came with a question, as a source and as a sink; waits for it, also
 * when the other side made it non-blocking. */
struct file_stream {
    int fd;
    uint64_t moved;
};
ssize_t file_stream_read(void *stream, void *space, size_t size, struct err *err);
int file_stream_write(void *stream, struct str bytes, struct err *err);
/* From here on SIGTERM ends a transfer with CANCELED instead of the process, so that what is half
 * written is taken away again. */
void file_stop_gently(void);

file_verb file_do_grep, file_do_tar_in, file_do_tar_out, file_do_diff; /* in file_heavy.c */
