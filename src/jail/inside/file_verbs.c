/* The file verbs, one function each, and the table of them all. */

#include "base/arena.h"
#include "base/err.h"
#include "files/mark.h"
#include "jail/inside/file_serve.h"

enum { SHORT_LIST = 200 };

static int do_stat(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct str target;
    if (files_stat(files, q->path, q->follow, &answer->stat, err) < 0)
        return -1;
    if (answer->stat.type != FILES_SYMLINK)
        return 0;
    if (files_readlink(files, q->path, &arena, &target, err) < 0 ||
        buf_append(&reply->bytes, target, err) < 0)
        return -1;
    answer->bytes = buf_str(&reply->bytes);
    return 0;
}

/* How things stand now; they may have changed again, which is no failure of what was asked. */
static int look_again(struct files *files, struct str path, bool follow,
                      struct jail_file_answer *answer)
{
    struct err ignored;
    (void)!files_stat(files, path, follow, &answer->stat, &ignored);
    return 0;
}

static int do_read(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    size_t most = JAIL_FILE_BYTES_MAX;
    struct files_range range = {.offset = q->offset,
                                .limit = q->limit == 0 ? most : MIN(q->limit, (uint64_t)most)};
    struct files_content content;
    if (files_read(files, q->path, &range, &reply->bytes, &content, err) < 0)
        return -1;
    answer->bytes = buf_str(&reply->bytes);
    answer->stat = content.stat;
    answer->size = content.size;
    answer->truncated = content.truncated;
    answer->is_binary = content.is_binary;
    return 0;
}

static struct files_write_options write_options(const struct jail_file *q, struct files_stat *same)
{
    *same = (struct files_stat){.size = q->same_size, .mtime_ns = q->same_mtime_ns};
    return (struct files_write_options){.mode = q->mode,
                                        .make_parents = q->parents,
                                        .must_be_new = q->must_be_new,
                                        .no_sync = !q->sync,
                                        .limit = q->limit,
                                        .if_same = q->if_same ? same : NULL};
}

static int do_write(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                    UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                    struct err *err)
{
    struct files_stat same;
    struct files_write_options options = write_options(q, &same);
    if (files_write(files, q->path, q->bytes, &options, &answer->created, err) < 0)
        return -1;
    return look_again(files, q->path, false, answer);
}

static int do_append(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                     UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                     struct err *err)
{
    if (files_append(files, q->path, q->bytes, &answer->size, err) < 0)
        return -1;
    return look_again(files, q->path, true, answer);
}

static int do_mkdir(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                    UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                    struct err *err)
{
    if (files_mkdir(files, q->path, q->mode == 0 ? 0755 : q->mode, q->parents, err) < 0)
        return -1;
    return look_again(files, q->path, true, answer);
}

static int do_rename(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                     UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                     struct err *err)
{
    if (files_rename(files, q->path, q->to, q->replace, err) < 0)
        return -1;
    return look_again(files, q->to, false, answer);
}

static int do_chmod(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                    UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                    struct err *err)
{
    if (files_chmod(files, q->path, q->mode, err) < 0)
        return -1;
    return look_again(files, q->path, true, answer);
}

static int do_symlink(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                      UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                      struct err *err)
{
    if (files_symlink(files, q->path, q->to, err) < 0)
        return -1;
    return look_again(files, q->path, false, answer);
}

static int do_delete(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                     UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                     struct err *err)
{
    struct files_delete_result result = {0};
    if (files_delete(files, q->path, q->recursive, &result, err) < 0)
        return -1;
    answer->count = result.removed;
    answer->skipped = result.kept;
    return 0;
}

static int do_list(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct files_list_options options = {.recursive = q->recursive,
                                         .limit = (size_t)MIN(q->limit, (uint64_t)FILES_LIST_MAX),
                                         .after = q->after};
    struct files_list list;
    if (files_list(files, q->path, &options, &arena, &list, err) < 0)
        return -1;
    for (size_t i = 0; i < list.count; i++) {
        file_put_entry(file_part_next(reply), &list.entries[i]);
        if (file_part_add(reply, err) < 0)
            return -1;
    }
    answer->truncated = list.truncated;
    answer->skipped = list.too_deep;
    return 0;
}

static int do_glob(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   struct file_reply *reply, struct jail_file_answer *answer, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct files_glob_options options = {.limit = (size_t)MIN(q->limit, (uint64_t)FILES_LIST_MAX),
                                         .skip_hidden = q->skip_hidden,
                                         .skip_usual = q->skip_usual,
                                         .with_dirs = q->with_dirs};
    struct files_glob glob;
    if (files_glob(files, q->path, q->pattern, &options, &arena, &glob, err) < 0)
        return -1;
    for (size_t i = 0; i < glob.count; i++) {
        file_put_path(file_part_next(reply), glob.paths[i]);
        if (file_part_add(reply, err) < 0)
            return -1;
    }
    answer->truncated = glob.truncated;
    answer->skipped = glob.unread;
    return 0;
}

static int do_edit(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                   struct err *err)
{
    if (files_edit(files, q->path, q->bytes, q->with, q->all, &answer->count, err) < 0)
        return -1;
    return look_again(files, q->path, false, answer);
}

/* Ends when the directory is gone; otherwise the client cancels, or stops reading. */
static int do_watch(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                    struct file_reply *reply, UNUSED struct jail_file_answer *answer,
                    struct err *err)
{
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    if (files_watch_new(files, q->path, q->recursive, &watch, err) < 0 ||
        file_part_flush(reply, true, err) < 0)
        return -1;
    for (;;) {
        struct files_event event;
        int got = files_watch_next(watch, reply->out.len > 0 ? 0 : -1, &event, err);
        if (got < 0)
            return -1;
        if (got == 0) { /* no more for now: tell what there is */
            if (file_part_flush(reply, false, err) < 0)
                return -1;
            continue;
        }
        file_put_event(file_part_next(reply), &event);
        if (file_part_add(reply, err) < 0)
            return -1;
        if (event.type == FILES_EVENT_GONE)
            return 0;
    }
}

static int do_read_to(struct files *files, const struct jail_file *q, int data_fd,
                      UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                      struct err *err)
{
    struct file_stream stream = {.fd = data_fd};
    struct files_sink sink = {file_stream_write, &stream};
    struct files_content content;
    if (files_read_to(files, q->path, q->offset, q->limit, &sink, &content, err) < 0)
        return -1;
    answer->stat = content.stat;
    answer->size = content.size;
    answer->truncated = content.truncated;
    answer->is_binary = content.is_binary;
    answer->moved = stream.moved;
    return 0;
}

/* The end of the stream counts as the end of the file only when nothing is missing. */
struct expecting {
    struct file_stream stream;
    const struct jail_file *question;
};

static ssize_t read_expected(void *ctx, void *space, size_t size, struct err *err)
{
    struct expecting *from = ctx;
    ssize_t got = file_stream_read(&from->stream, space, size, err);
    uint64_t moved = from->stream.moved, expected = from->question->expected;
    bool is_wrong = moved > expected || (got == 0 && moved < expected);
    if (got >= 0 && from->question->is_expected && is_wrong)
        return err_set(err, ERR_INVALID, "%s data than the announced %llu bytes",
                       moved > expected ? "more" : "less", (unsigned long long)expected);
    return got;
}

static int do_write_from(struct files *files, const struct jail_file *q, int data_fd,
                         UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                         struct err *err)
{
    struct expecting from = {.stream.fd = data_fd, .question = q};
    struct files_source source = {read_expected, &from};
    struct files_stat same;
    struct files_write_options options = write_options(q, &same);
    file_stop_gently();
    if (files_write_from(files, q->path, &source, &options, &answer->created, err) < 0)
        return -1;
    answer->moved = from.stream.moved;
    return look_again(files, q->path, false, answer);
}

static int do_mark(struct files *files, const struct jail_file *q, UNUSED int data_fd,
                   UNUSED struct file_reply *reply, struct jail_file_answer *answer,
                   struct err *err)
{
    struct files_mark mark;
    if (files_mark(files, q->path, &mark, err) < 0)
        return -1;
    answer->count = mark.entries;
    answer->changed = mark.sum[0];
    answer->moved = mark.sum[1];
    return 0;
}

/* Only the helper has the heavy verbs. */
#ifdef SG_FILE_HEAVY
#define HEAVY(func) func
#else
#define HEAVY(func) NULL
#endif

static const struct file_row rows[] = {
    {JAIL_FILE_STAT, FILE_INLINE, false, do_stat},
    {JAIL_FILE_READ, FILE_INLINE, false, do_read},
    {JAIL_FILE_WRITE, FILE_INLINE, false, do_write},
    {JAIL_FILE_APPEND, FILE_INLINE, false, do_append},
    {JAIL_FILE_MKDIR, FILE_INLINE, false, do_mkdir},
    {JAIL_FILE_RENAME, FILE_INLINE, false, do_rename},
    {JAIL_FILE_CHMOD, FILE_INLINE, false, do_chmod},
    {JAIL_FILE_SYMLINK, FILE_INLINE, false, do_symlink},
    {JAIL_FILE_DELETE, FILE_INLINE, false, do_delete},
    {JAIL_FILE_LIST, FILE_CHILD, false, do_list},
    {JAIL_FILE_GLOB, FILE_CHILD, false, do_glob},
    {JAIL_FILE_EDIT, FILE_CHILD, false, do_edit},
    {JAIL_FILE_WATCH, FILE_CHILD, false, do_watch},
    {JAIL_FILE_READ_TO, FILE_CHILD, true, do_read_to},
    {JAIL_FILE_WRITE_FROM, FILE_CHILD, true, do_write_from},
    {JAIL_FILE_GREP, FILE_HELPER, false, HEAVY(file_do_grep)},
    {JAIL_FILE_TAR_IN, FILE_HELPER, true, HEAVY(file_do_tar_in)},
    {JAIL_FILE_TAR_OUT, FILE_HELPER, true, HEAVY(file_do_tar_out)},
    {JAIL_FILE_MARK, FILE_CHILD, false, do_mark},
    {JAIL_FILE_DIFF, FILE_HELPER, true, HEAVY(file_do_diff)},
};

const struct file_row *file_row_of(uint32_t verb)
{
    for (size_t i = 0; i < countof(rows); i++)
        if ((uint32_t)rows[i].verb == verb)
            return &rows[i];
    return NULL;
}

/* A page of a directory that is not large: a fork would cost ten times the work. */
static bool is_short_list(const struct jail_file *question)
{
    AUTO_FILES struct files *files = NULL;
    struct files_options options = {.in_root = true};
    struct err err;
    bool is_small = false;
    if (question->recursive || files_open("/", &options, &files, &err) < 0 ||
        files_is_small_dir(files, question->path, SHORT_LIST, &is_small, &err) < 0)
        return false;
    return is_small;
}

enum file_worker file_worker_of(const struct file_row *row, const struct jail_file *question)
{
    /* A tree of any size, or a disk that takes its time. */
    if ((row->verb == JAIL_FILE_DELETE && question->recursive) ||
        (row->verb == JAIL_FILE_WRITE && question->sync))
        return FILE_CHILD;
    if (row->verb == JAIL_FILE_LIST && is_short_list(question))
        return FILE_INLINE;
    return row->worker;
}
