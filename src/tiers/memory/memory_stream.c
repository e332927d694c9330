#include "tiers/memory/memory_stream.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hold.h"
#include "io/loop.h"
#include "tiers/memory/memory_tree.h"

enum { PIECE_BYTES = 256 << 10 };

static int refuse_archive(struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "a sandbox of the tier 'memory' has no archives; read and write its files one "
                   "by one");
}

/* --- Out --- */

struct memory_reader {
    struct loop_task task; /* first */
    struct memory_reader *next;
    struct memory_streams *streams; /* NULL once it is over */
    struct loop *loop;
    struct arena arena;
    struct file_answer file;
    size_t at;
    struct file_reader_calls calls;
    void *ctx;
    struct hold hold; /* by the loop, and by call-backs under way */
    bool is_stopped, has_head;
};

static void leave_readers(struct memory_reader *reader)
{
    if (reader->streams == NULL)
        return;
    struct memory_reader **at = &reader->streams->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    reader->streams = NULL;
}

static void reader_done(struct memory_reader *reader)
{
    arena_done(&reader->arena);
    free(reader);
}

static void end_reader(struct memory_reader *reader, const struct err *why)
{
    leave_readers(reader);
    reader->calls.on_end(reader->ctx, why);
}

static void tell_piece(struct memory_reader *reader)
{
    struct str bytes = str_slice(reader->file.bytes, reader->at, reader->at + PIECE_BYTES);
    reader->at += bytes.len;
    reader->calls.on_data(reader->ctx, bytes);
}

/* Each call-back may free the reader, stop it or end its place. */
static void memory_stream_tell(struct loop_task *task)
{
    struct memory_reader *reader = (struct memory_reader *)task;
    if (reader->streams != NULL && !reader->has_head) {
        reader->has_head = true;
        reader->calls.on_head(reader->ctx, &reader->file.info);
    }
    while (reader->streams != NULL && !reader->is_stopped && reader->at < reader->file.bytes.len)
        tell_piece(reader);
    if (reader->streams != NULL && reader->at == reader->file.bytes.len)
        end_reader(reader, NULL);
    if (hold_release(&reader->hold))
        reader_done(reader);
}

/* Call-backs come from the loop, never from within what the caller does. */
static void post_reader(struct memory_reader *reader)
{
    if (reader->hold.count > 0 || reader->streams == NULL)
        return;
    hold_take(&reader->hold); /* until `memory_stream_tell` is over */
    loop_post(reader->loop, &reader->task);
}

int memory_reader_open(struct loop *loop, struct memory_tree *tree, struct memory_streams *streams,
                       const struct file_get *get, const struct file_reader_calls *calls, void *ctx,
                       void **ret_reader, struct err *err)
{
    if (get->as_tar || get->as_snapshot)
        return refuse_archive(err);
    struct memory_reader *reader = mem_alloc(sizeof *reader);
    *reader = (struct memory_reader){
        .task.run = memory_stream_tell, .loop = loop, .calls = *calls, .ctx = ctx};
    uint64_t limit = get->limit == 0 ? SIZE_MAX / 2 : MIN(get->limit, (uint64_t)SIZE_MAX / 2);
    struct file_request request = {
        .op = FILE_READ, .path = get->path, .offset = get->offset, .limit = (size_t)limit};
    if (memory_tree_file(tree, &request, &reader->arena, &reader->file, err) < 0) {
        memory_reader_free(reader);
        return -1;
    }
    reader->streams = streams;
    reader->next = streams->readers;
    streams->readers = reader;
    post_reader(reader);
    *ret_reader = reader;
    return 0;
}

void memory_reader_flow(void *handle, bool stop)
{
    struct memory_reader *reader = handle;
    reader->is_stopped = stop;
    if (!stop)
        post_reader(reader);
}

void memory_reader_free(void *handle)
{
    struct memory_reader *reader = handle;
    leave_readers(reader);
    if (hold_end(&reader->hold))
        reader_done(reader);
}

/* --- In --- */

struct memory_writer {
    struct loop_task task; /* first */
    struct memory_writer *next;
    struct memory_streams *streams; /* NULL once it is over */
    struct loop *loop;
    struct memory_tree *tree;
    struct file_put put; /* its texts live as long as the caller's handle */
    struct buf bytes;
    struct file_writer_calls calls;
    void *ctx;
    struct err err;
    struct hold hold; /* by the loop, and by call-backs under way */
};

static void leave_writers(struct memory_writer *writer)
{
    if (writer->streams == NULL)
        return;
    struct memory_writer **at = &writer->streams->writers;
    while (*at != writer)
        at = &(*at)->next;
    *at = writer->next;
    writer->streams = NULL;
}

static void writer_done(struct memory_writer *writer)
{
    buf_done(&writer->bytes);
    free(writer);
}

/* The caller holds it: the call-back may free it. */
static void end_writer(struct memory_writer *writer, const struct file_answer *answer)
{
    leave_writers(writer);
    writer->calls.on_done(writer->ctx, answer, answer == NULL ? &writer->err : NULL);
}

static void write_all(struct memory_writer *writer)
{
    AUTO_ARENA struct arena arena = {0};
    struct file_answer answer = {0};
    struct file_request request = {.op = FILE_WRITE,
                                   .path = writer->put.path,
                                   .bytes = buf_str(&writer->bytes),
                                   .if_match = writer->put.if_match,
                                   .mode = writer->put.mode,
                                   .make_parents = writer->put.make_parents,
                                   .must_be_new = writer->put.must_be_new};
    bool is_there = writer->err.code == ERR_NONE &&
                    memory_tree_file(writer->tree, &request, &arena, &answer, &writer->err) == 0;
    end_writer(writer, is_there ? &answer : NULL);
}

static void memory_stream_settle(struct loop_task *task)
{
    struct memory_writer *writer = (struct memory_writer *)task;
    if (writer->streams != NULL)
        write_all(writer);
    if (hold_release(&writer->hold))
        writer_done(writer);
}

static void post_writer(struct memory_writer *writer)
{
    if (writer->hold.count > 0 || writer->streams == NULL)
        return;
    hold_take(&writer->hold); /* until `memory_stream_settle` is over */
    loop_post(writer->loop, &writer->task);
}

int memory_writer_open(struct loop *loop, struct memory_tree *tree, struct memory_streams *streams,
                       const struct file_put *put, const struct file_writer_calls *calls, void *ctx,
                       void **ret_writer, struct err *err)
{
    if (put->as_tar)
        return refuse_archive(err);
    struct memory_writer *writer = mem_alloc(sizeof *writer);
    *writer = (struct memory_writer){.task.run = memory_stream_settle,
                                     .next = streams->writers,
                                     .streams = streams,
                                     .loop = loop,
                                     .tree = tree,
                                     .put = *put,
                                     .calls = *calls,
                                     .ctx = ctx};
    writer->bytes.limit = (size_t)(tree->bytes_max == 0 ? TREE_BYTES_MAX : tree->bytes_max);
    streams->writers = writer;
    *ret_writer = writer;
    return 0;
}

bool memory_writer_write(void *handle, struct str bytes)
{
    struct memory_writer *writer = handle;
    if (writer->err.code != ERR_NONE || buf_append(&writer->bytes, bytes, &writer->err) == 0)
        return true;
    (void)err_set(&writer->err, ERR_NO_SPACE, "the files of the sandbox would exceed %zu bytes",
                  writer->bytes.limit);
    post_writer(writer);
    return true;
}

void memory_writer_finish(void *handle)
{
    post_writer(handle);
}

void memory_writer_free(void *handle)
{
    struct memory_writer *writer = handle;
    leave_writers(writer);
    if (hold_end(&writer->hold))
        writer_done(writer);
}

void memory_streams_end(struct memory_streams *streams)
{
    struct err err = {0};
    (void)err_set(&err, ERR_GONE, "the sandbox ended");
    while (streams->readers != NULL) {
        struct memory_reader *reader = streams->readers;
        streams->readers = reader->next;
        reader->streams = NULL;
        hold_take(&reader->hold);
        end_reader(reader, &err);
        if (hold_release(&reader->hold))
            reader_done(reader);
    }
    while (streams->writers != NULL) {
        struct memory_writer *writer = streams->writers;
        streams->writers = writer->next;
        writer->streams = NULL;
        writer->err = err;
        hold_take(&writer->hold);
        end_writer(writer, NULL);
        if (hold_release(&writer->hold))
            writer_done(writer);
    }
}
