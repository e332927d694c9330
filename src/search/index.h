#pragma once

/* The index in memory: which chunks have which terms, and their vectors.
 *
 * It is derived from the rows of store/docs.h, rebuilt at each start, so it cannot disagree with
 * them after a crash. Scores of all chunks are computed for each query, so that a filter decides
 * before the best are cut off. One thread at a time.
 *
 * A posting is four bytes: the number of the chunk and how often the term occurs in it. SQLite's
 * FTS5 ranks about 100 chunks a millisecond, which is too slow for questions of many words. */

#include "base/vec.h"
#include "search/words.h"

enum {
    INDEX_CHUNKS_MAX = (1 << 24) - 1,
    INDEX_TERMS_MAX = 32, /* of a query */
};

enum doc_kind { DOC_PAGE, DOC_MODULE };

/* What a chunk is, for filters and for reading it. */
struct index_chunk {
    int64_t row; /* of doc_chunks; 0: removed */
    int64_t page;
    uint64_t hash;                                       /* the beginning of its content's */
    uint32_t tenant, source, package, session, language; /* numbers of names; 0: none */
    uint16_t words;
    uint8_t kind;
    bool is_shared;  /* a module of any session of its tenant */
    bool has_vector; /* in `vectors` */
};

struct index_term;

/* How much of the index a tenant has. */
struct index_share {
    size_t chunks;
    uint64_t words;
};

struct index {
    VEC(struct index_chunk) chunks; /* by number */
    VEC(uint32_t) free;             /* numbers that no posting has */
    VEC(uint32_t) dead;             /* removed since the postings were cleaned */
    struct index_term *terms;
    size_t term_count, term_cap;
    uint32_t *slots; /* number of the term plus one, by hash */
    size_t slot_count;
    char *names; /* of the terms, one behind the other */
    size_t names_len, names_cap;
    VEC(struct index_share) shares; /* by the number of the tenant; 0: that of the configuration */
    size_t chunk_count;
    int8_t *vectors; /* dim for each chunk number; NULL: no model */
    float *scales;   /* a vector is its numbers times its scale */
    size_t dim, vector_cap;
};

void index_done(struct index *index);
/* The number of the new chunk. Terms as in search/terms.h; those of the heading count more. */
uint32_t index_add(struct index *index, const struct index_chunk *chunk, struct str heading_terms,
                   struct str terms);
void index_remove(struct index *index, uint32_t number);
/* Of `dim` numbers; the first decides the dimension of all. */
void index_set_vector(struct index *index, uint32_t number, const int8_t *vector, float scale,
                      size_t dim);
size_t index_bytes(const struct index *index);

/* --- Terms, for queries --- */

/* All of these see only chunks of tenant 0, which are for every tenant, and of `tenant`: what
 * another tenant has must not show in a correction or in a score. */

size_t index_chunks(const struct index *index, uint32_t tenant);
/* How many chunks have the term. Takes time for each of them. */
size_t index_frequency(const struct index *index, uint32_t tenant, struct str term);
/* Adds the BM25 score of a term, times `weight`, to the score of each of these chunks. `frequency`
 * is that of index_frequency. */
void index_score_term(const struct index *index, uint32_t tenant, struct str term, size_t frequency,
                      float weight, float *scores);
/* The most frequent term within a few typing errors of one that these chunks do not have; empty
 * if there is no such term. */
struct str index_nearest(const struct index *index, uint32_t tenant, struct str term);

/* --- Vectors --- */

/* The cosine of each chunk's vector with the query's, which has length 1; 0 without a vector. */
void index_score_vector(const struct index *index, const float *query, float *scores);
