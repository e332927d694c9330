#pragma once

/* Contents of files in memory, in pieces: for provider_memory.c. What is read is the file as it was
 * when it was opened; written contents appear as a whole, at the end, or not at all. */

#include "engine/file/file.h"

struct loop;
struct memory_tree;

/* Those of one place that are under way. An all-zero one has none. */
struct memory_streams {
    struct memory_reader *readers;
    struct memory_writer *writers;
};

/* As in provider.h; the tree and `streams` live until memory_streams_end. UNSUPPORTED for
 * archives. */
int memory_reader_open(struct loop *loop, struct memory_tree *tree, struct memory_streams *streams,
                       const struct file_get *get, const struct file_reader_calls *calls, void *ctx,
                       void **ret_reader, struct err *err) MUST_USE;
void memory_reader_flow(void *handle, bool stop);
void memory_reader_free(void *handle);

int memory_writer_open(struct loop *loop, struct memory_tree *tree, struct memory_streams *streams,
                       const struct file_put *put, const struct file_writer_calls *calls, void *ctx,
                       void **ret_writer, struct err *err) MUST_USE;
bool memory_writer_write(void *handle, struct str bytes);
void memory_writer_finish(void *handle);
void memory_writer_free(void *handle);

/* The place is ending: all streams end with an error before this returns. What was written so far
 * is not kept. */
void memory_streams_end(struct memory_streams *streams);
