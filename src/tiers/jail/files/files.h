#pragma once

/* The files of a place: single operations, streams, watchers, and what automatic checkpoints ask.
 */

#include "engine/provider.h"
#include "jail/client/files.h"

/* files.c */
void tier_files(struct place *place, const struct file_request *request, file_done *done,
                void *ctx);
struct file_info tier_file_info(struct str path, const struct files_stat *stat);

/* reader.c */
int tier_file_get(struct place *place, const struct file_get *get,
                  const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                  struct err *err);
void tier_reader_flow(void *reader, bool stop);
void tier_reader_free(void *reader);

/* writer.c */
int tier_file_put(struct place *place, const struct file_put *put,
                  const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                  struct err *err);
bool tier_writer_write(void *writer, struct str bytes);
void tier_writer_finish(void *writer);
void tier_writer_free(void *writer);

/* watcher.c */
int tier_file_watch(struct place *place, struct str path, bool recursive,
                    const struct file_watch_calls *calls, void *ctx, void **ret_watcher,
                    struct err *err);
void tier_watcher_free(void *watcher);

/* files.c: whether a file of this path is the volume's. */
bool tier_files_last(const struct place *place, struct str path);

/* listing.c: something else than a run is about to change files. */
void tier_files_touched(struct place *place);

/* turn.c */
void tier_mark(struct place *place, mark_done *done, void *ctx);
void tier_diff(struct place *place, int fd, uint64_t first, bool has_second, engine_done *done,
               void *ctx);
