#include "search/reader.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "io/proc.h"
#include "search/reader_internal.h"

enum { OUTPUT_MAX = 512 << 20 };

struct reading {
    const struct reader_options *options;
    const struct document_ask *asks;
    struct arena *arena;
    struct reader_answer *answers;
    size_t count, next; /* `next`: without an answer yet */
    size_t failures;
};

/* --- What goes in --- */

static void put_ask(struct buf *out, const struct document_ask *ask)
{
    struct reader_head head = {.format = (uint32_t)ask->format,
                               .title_len = (uint32_t)ask->title.len,
                               .text_len = (uint32_t)ask->text.len,
                               .has_chunks = ask->chunks != NULL,
                               .chunk_count = (uint32_t)ask->chunk_count};
    buf_put(out, str_n((const char *)&head, sizeof head));
    buf_put(out, ask->title);
    buf_put(out, ask->text);
    assert(ask->chunks || ask->chunk_count == 0);
    for (size_t i = 0; i < ask->chunk_count; i++) {
        const struct chunk *chunk = &ask->chunks[i];
        struct reader_range range = {(uint32_t)chunk->start, (uint32_t)chunk->len,
                                     (uint32_t)chunk->heading.len};
        buf_put(out, str_n((const char *)&range, sizeof range));
        buf_put(out, chunk->heading);
    }
}

/* What no process needs to look at. */
static int check_ask(const struct document_ask *ask, struct err *err)
{
    struct str title = ask->title;
    if (ask->text.len > DOCUMENT_MAX)
        return err_set(err, ERR_TOO_LARGE, "the document has more than %d MiB", DOCUMENT_MAX >> 20);
    if (title.len > DOCUMENT_TITLE_MAX || !str_is_utf8(title) ||
        str_find_char(title, '\n') != title.len || str_find_char(title, '\0') != title.len)
        return err_set(err, ERR_INVALID, "its name is not one line of UTF-8 of at most %d bytes",
                       DOCUMENT_TITLE_MAX);
    return 0;
}

/* The documents of the next process, from `next` to before the number that is given. Those in
 * between that were refused have their answer. */
static size_t put_batch(struct reading *reading, struct buf *out)
{
    size_t at = reading->next;
    for (size_t taken = 0; at < reading->count && taken < READER_BATCH_COUNT; at++) {
        const struct document_ask *ask = &reading->asks[at];
        if (taken > 0 && out->len + ask->text.len > READER_BATCH_BYTES)
            break;
        if (check_ask(ask, &reading->answers[at].why) < 0)
            continue;
        put_ask(out, ask);
        taken++;
    }
    return at;
}

/* --- What comes out --- */

/* One frame; false when it is not whole, or longer than any record can be. */
static bool next_record(struct str *rest, const struct document_ask *ask, struct str *ret_record)
{
    uint32_t len = 0;
    if (rest->len < sizeof len)
        return false;
    memcpy(&len, rest->ptr, sizeof len);
    if (len > rest->len - sizeof len || len > document_record_max(ask))
        return false;
    *ret_record = str_slice(*rest, sizeof len, sizeof len + len);
    *rest = str_slice(*rest, sizeof len + len, rest->len);
    return true;
}

/* Answers up to `end`, or to the document whose record is missing. */
static void take_records(struct reading *reading, size_t end, struct str output)
{
    struct str rest = arena_dup(reading->arena, output), record;
    for (; reading->next < end; reading->next++) {
        struct reader_answer *answer = &reading->answers[reading->next];
        const struct document_ask *ask = &reading->asks[reading->next];
        if (answer->why.code != ERR_NONE)
            continue;
        if (!next_record(&rest, ask, &record))
            return;
        (void)!document_take(record, ask, reading->arena, &answer->document, &answer->why);
    }
}

/* --- The process --- */

static int memory_file(struct str bytes, struct err *err)
{
    AUTO_CLOSE int fd = memfd_create("documents", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "make a file in memory");
    if (fd_write_all(fd, bytes, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "rewind a file in memory");
    return fd_take(&fd);
}

/* Why the process ended before its last record. */
static void reader_explain(struct proc_exit how, struct err *why)
{
    if (how.signal == SIGXCPU || how.signal == SIGKILL)
        (void)err_set(why, ERR_INVALID,
                      "reading it took more than %d s of processor time, or too much memory",
                      READER_CPU_SECONDS);
    else if (how.signal != 0)
        (void)err_set(why, ERR_INVALID, "the process that read it was ended by signal %d",
                      how.signal);
    else
        (void)err_set(why, ERR_INVALID, "the process that read it ended early with code %d",
                      how.code);
}

/* `why` is that of the document whose record is missing, if one is. */
static int run_process(const struct reading *reading, struct str input, struct buf *output,
                       struct err *why, struct err *err)
{
    static const char *const argv[] = {READER_PROGRAM, NULL};
    const struct reader_options *options = reading->options;
    AUTO_CLOSE int in = memory_file(input, err);
    AUTO_CLOSE int out = in < 0 ? -1 : memory_file((struct str){0}, err);
    if (out < 0)
        return -1;
    struct proc_fd fds[] = {{in, READER_IN}, {out, READER_OUT}};
    struct proc_options child = {.program =
                                     options->program == NULL ? "/proc/self/exe" : options->program,
                                 .argv = argv,
                                 .fds = fds,
                                 .fd_count = countof(fds),
                                 .new_session = true};
    struct proc_exit how = {0};
    int64_t wall_ms = options->wall_ms == 0 ? READER_WALL_MS : options->wall_ms;
    if (proc_run(&child, wall_ms, options->stop, &how, err) == 0)
        reader_explain(how, why);
    else if (err->code == ERR_TIMEOUT)
        (void)err_set(why, ERR_INVALID, "reading it took more than %lld s",
                      (long long)(wall_ms + 999) / 1000);
    else
        return -1;
    if (lseek(out, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "read the records");
    return buf_read_all(output, out, err);
}

static int read_batch(struct reading *reading, struct err *err)
{
    AUTO_BUF struct buf input = buf_with_limit(OUTPUT_MAX), output = buf_with_limit(OUTPUT_MAX);
    struct err why = {0};
    size_t end = put_batch(reading, &input);
    if (input.len > 0 && run_process(reading, buf_str(&input), &output, &why, err) < 0)
        return -1;
    take_records(reading, end, buf_str(&output));
    if (reading->next == end)
        return 0;
    reading->answers[reading->next++].why = why;
    reading->failures++;
    return 0;
}

int reader_read(const struct reader_options *options, const struct document_ask *asks, size_t count,
                struct arena *arena, struct reader_answer *ret_answers, struct err *err)
{
    struct reading reading = {options, asks, arena, ret_answers, count, 0, 0};
    for (size_t i = 0; i < count; i++)
        ret_answers[i] = (struct reader_answer){0};
    while (reading.next < count && reading.failures < READER_FAILURES_MAX)
        if (read_batch(&reading, err) < 0)
            return err_wrap(err, "read documents");
    for (size_t i = reading.next; i < count; i++)
        (void)err_set(&ret_answers[i].why, ERR_INVALID,
                      "not read: %d documents before it could not be read", READER_FAILURES_MAX);
    return 0;
}
