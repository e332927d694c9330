#pragma once

/* What the rows of the suite share. */

#include "base/arena.h"
#include "base/vec.h"
#include "search/embed/model.h"
#include "search/library.h"

struct question {
    struct str text;
    struct str *targets; /* pages, or PAGE#SECTION */
    size_t target_count;
    float *vector; /* once it was needed for a score */
};

struct corpus {
    struct arena arena;
    struct library *library;
    struct embed_model *model; /* NULL: not on this machine */
    VEC(struct question) questions;
    float keyword_part; /* of library_query */
};

void give_up(const char *what, const char *detail);
/* An empty library in a directory that ends with the program. */
void corpus_open(struct corpus *corpus, const char *name, const char *model_dir);
void corpus_close(struct corpus *corpus);
void corpus_source(struct corpus *corpus, const char *package, char ret_id[17]);
void corpus_put(struct corpus *corpus, const char *source, struct str path, struct str title,
                struct str text, enum doc_format format);
/* The vectors of all chunks; gives how many bytes of text were embedded. */
size_t corpus_embed(struct corpus *corpus);

/* SciFact, when it is at `dir`; false when it is not. */
bool scifact_load(struct corpus *corpus, const char *dir);
/* The .mdx pages below `dir`, `copies` times; false when there are none. */
bool pages_load(struct corpus *corpus, const char *dir, size_t copies, size_t chunks_max);
bool questions_load(struct corpus *corpus, const char *file);
/* Gives up unless each answer of a question is a section that was loaded: a page that was renamed
 * would look like bad quality. */
void corpus_check_targets(struct corpus *corpus);

enum how { BY_WORDS, BY_MEANING, BY_BOTH };
/* One search as the server does it, the question's vector included. */
void corpus_ask(struct corpus *corpus, struct str text, enum how how, size_t limit,
                struct arena *arena, struct library_results *ret_results);
/* Normalised discounted cumulative gain of the first ten, in percent, over all questions. */
double corpus_score(struct corpus *corpus, enum how how);
/* The same by both, where each half of the questions is scored with the part of the keywords that
 * was best for the other half: what a choice is worth for questions that it was not made with.
 * `ret_parts` are the two choices. */
double corpus_held_out(struct corpus *corpus, float ret_parts[2]);

struct bench;
/* Through a server, as users ask: over HTTP, the question embedded by the confined process. */
void served_rows(struct bench *bench, const char *pages_dir, const char *model_dir,
                 const struct question *questions, size_t count);
/* Tokens per second of the model and the time of one query, beside ONNX Runtime. */
void embed_rows(struct bench *bench);
