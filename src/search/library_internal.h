#pragma once

/* Internals of library*.c. */

#include "base/map.h"
#include "search/library.h"

struct library {
    struct docs *docs;
    struct index index;
    struct map names;   /* to numbers from 1 on: tenants, packages, sessions, languages */
    struct map sources; /* struct source, by id */
    char *model;
    const struct reader_options *reader;
    size_t unread;
    size_t vector_count;
    VEC(size_t) tenant_chunks; /* by the number of the tenant */
    uint64_t version;          /* grows when one of them becomes 0, or is no longer */
};

struct source {
    uint32_t tenant, package, session;
    bool is_module;
    char *package_name; /* "@acme/sdk"; may be empty */
};

/* A chunk that is put into the index. */
struct library_chunk {
    const struct docs_page *page;
    const struct source *source;
    int64_t row;
    struct str hash, heading_terms, terms;
};

/* Without a place in `sources` yet. */
struct source *library_new_source(struct library *library, const struct docs_source *row);
void library_keep_source(struct library *library, struct str id, struct source *source);
struct source *library_free_source(struct source *source);
/* Gives its number. */
uint32_t library_add_chunk(struct library *library, const struct library_chunk *chunk);
/* Takes the chunks of these pages out of the index. Sorts `pages`. */
void library_drop_chunks(struct library *library, int64_t *pages, size_t count);
/* With the library's reader, or in this process. */
struct reader_answer;
int library_read(const struct library *library, const struct document_ask *asks, size_t count,
                 struct arena *arena, struct reader_answer *ret_answers, struct err *err) MUST_USE;
/* Puts every chunk of the rows into the index (library_load.c). */
int library_load(struct library *library, struct err *err) MUST_USE;
/* The id that results have, by source, page and position. */
void library_chunk_key(struct str source, struct str path, size_t position, char out[17]);

/* 0 for an empty name, or one that is not known. */
uint32_t library_name(const struct library *library, struct str name);
uint64_t library_short_hash(struct str hex);
/* Takes the vector of each new chunk that has one already. */
int library_take_vector(struct library *library, uint32_t number, struct str hash,
                        struct err *err) MUST_USE;
int library_load_vectors(struct library *library, struct err *err) MUST_USE;
