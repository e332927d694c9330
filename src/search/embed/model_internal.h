#pragma once

/* For model.c, the process that serves a model (embedder_serve.c), and tests. */

#include "search/embed/model.h"

struct path;
struct workers;

/* Takes `workers`, also on failure. The files may be closed afterwards. */
int embed_model_load(int weights_fd, int tokenizer_fd, struct workers *workers,
                     const struct path *path, struct embed_model **ret_model,
                     struct err *err) MUST_USE;
/* embed_model_open with the arithmetic of one path; NULL: the best one. */
int embed_model_open_with(const char *dir, int threads, const struct path *path,
                          struct embed_model **ret_model, struct err *err) MUST_USE;

/* The files of a model in `dir`. NOT_FOUND, with what to do, if it has no model. */
int embed_model_files(const char *dir, int *ret_weights_fd, int *ret_tokenizer_fd,
                      struct err *err) MUST_USE;

/* embed_texts that calls `pause` every few milliseconds, which may itself call embed_texts. */
void embed_texts_pausing(struct embed_model *model, const struct str *texts, size_t count,
                         void (*pause)(void *ctx), void *ctx, float *out);
