/* File verbs that need a heavy library. Only the helper has them. */

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "files/archive/keep.h"
#include "files/archive/snapshot.h"
#include "jail/inside/file_serve.h"

enum { GREP_MEMORY = 64 << 20, GREP_CPU_S = 10 };

/* What the search itself does not stop in time, the kernel does. */
static void limit_grep(void)
{
    struct rlimit memory = {GREP_MEMORY, GREP_MEMORY}, cpu = {GREP_CPU_S, GREP_CPU_S};
    (void)setrlimit(RLIMIT_DATA, &memory);
    (void)setrlimit(RLIMIT_CPU, &cpu);
}

int file_do_grep(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                 struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct files_grep_options options = {
        .glob = q->glob,
        .limit = (size_t)MIN(q->limit, (uint64_t)FILES_GREP_MAX),
        .line_max = (size_t)MIN(q->line_max, (uint64_t)FILES_GREP_LINE_MAX),
        .context = q->context,
        .cpu_ms = (int64_t)MIN(q->cpu_ms, (uint64_t)FILES_GREP_CPU_MS),
        .literal = q->literal,
        .ignore_case = q->ignore_case,
        .skip_hidden = q->skip_hidden,
        .skip_usual = q->skip_usual};
    struct files_grep grep;
    limit_grep();
    if (files_grep(files, q->path, q->pattern, &options, &arena, &grep, err) < 0)
        return -1;
    for (size_t i = 0; i < grep.count; i++) {
        file_put_match(file_part_next(reply), &grep.matches[i]);
        if (file_part_add(reply, err) < 0)
            return -1;
    }
    answer->truncated = grep.truncated;
    answer->timed_out = grep.timed_out;
    answer->count = grep.files;
    answer->binary = grep.binary;
    answer->skipped = grep.unread;
    answer->hard_lines = grep.hard_lines;
    return 0;
}

int file_do_tar_in(struct files *files, const struct jail_file *q, int data_fd,
                   UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                   struct err *err)
{
    struct file_stream stream = {.fd = data_fd};
    struct files_source source = {file_stream_read, &stream};
    struct files_tar_result result;
    file_stop_gently();
    int done = q->place == FILES_TAR_SNAPSHOT
                   ? files_snapshot_in(files, &source, &q->tar, &result, err)
               : q->place == FILES_TAR_EXACT
                   ? files_keep_in(files, q->path, &source, &q->tar, &result, err)
                   : files_tar_in(files, q->path, q->place, &source, &q->tar, &result, err);
    if (done < 0)
        return -1;
    answer->count = result.entries;
    answer->moved = result.bytes;
    return 0;
}

int file_do_tar_out(struct files *files, const struct jail_file *q, int data_fd,
                    UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                    struct err *err)
{
    struct file_stream stream = {.fd = data_fd};
    struct files_sink sink = {file_stream_write, &stream};
    struct files_tar_out_options options = {
        .gzip = q->gzip, .limit = q->limit, .is_kept = q->place == FILES_TAR_EXACT};
    struct files_tar_result result;
    int done = q->place == FILES_TAR_SNAPSHOT
                   ? files_snapshot_out(files, q->path, q->to, &sink, &result, err)
                   : files_tar_out(files, q->path, &sink, &options, &result, err);
    if (done < 0)
        return -1;
    answer->count = result.entries;
    answer->moved = result.bytes;
    answer->skipped = result.skipped;
    answer->changed = result.changed;
    return 0;
}

/* A part of a file, as a source. */
struct span {
    int fd;
    off_t at, end;
};

static ssize_t read_span(void *ctx, void *space, size_t size, struct err *err)
{
    struct span *span = ctx;
    size_t room = (size_t)MIN((uint64_t)size, (uint64_t)(span->end - span->at));
    ssize_t got = room == 0 ? 0 : pread(span->fd, space, room, span->at);
    if (got < 0)
        return err_sys(err, errno, "read an archive");
    span->at += got;
    return got;
}

/* The file has the archives, and takes what is found behind them. */
int file_do_diff(struct files *files, const struct jail_file *q, int data_fd,
                 UNUSED struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(16 << 20);
    struct stat st;
    if (fstat(data_fd, &st) < 0)
        return err_sys(err, errno, "inspect the archives");
    if (q->limit > (uint64_t)st.st_size)
        return err_set(err, ERR_INVALID, "the first archive's length is larger than the data");
    struct span first = {data_fd, 0, (off_t)q->limit};
    struct span second = {data_fd, (off_t)q->limit, st.st_size};
    struct files_source from = {read_span, &first}, to = {read_span, &second};
    if (files_diff(files, q->path, &from, q->follow ? &to : NULL, &out, err) < 0)
        return -1;
    struct file_stream stream = {.fd = data_fd};
    if (lseek(data_fd, st.st_size, SEEK_SET) < 0)
        return err_sys(err, errno, "seek");
    answer->moved = out.len;
    return file_stream_write(&stream, buf_str(&out), err);
}
