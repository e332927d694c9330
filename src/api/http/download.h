#pragma once

/* An answer of bytes that a file_reader of the engine gives, at the pace at which the client takes
 * them: files (with ranges and ETag), trees as tar, exports. */

#include "engine/file/file.h"

struct err;
struct request;

struct download;

/* Holds the request. The reader that is opened next gets `download_calls`, this as its ctx, and
 * goes to *download_reader. */
struct download *download_new(struct request *request, const char *content_type);
extern const struct file_reader_calls download_calls;
struct file_reader **download_reader(struct download *download);
/* The reader could not be opened. */
void download_fail(struct download *download, const struct err *why);

/* For a file: supports Range, If-Range and If-None-Match of the request. */
void download_file(struct request *request, struct engine *engine,
                   const struct engine_caller *caller, const struct file_place *place,
                   struct str path);
