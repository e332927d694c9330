#include "search/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sip.h"
#include "search/scan.h"
#include "search/terms.h"

enum {
    HEADING_WEIGHT = 3, /* times a word of the heading counts */
    COUNT_MAX = 255,
    DEAD_MIN = 1000, /* removed chunks from which postings are cleaned, */
    DEAD_PART = 5,   /* and which part of all chunks they must be */
};

/* BM25 as in Lucene: how fast a repeated term saturates, and how much length counts. */
static const float BM25_K1 = 1.2F, BM25_B = 0.75F;

struct index_term {
    uint32_t name, letters; /* offset; set of its letters, for index_nearest */
    uint32_t len, cap;      /* postings */
    uint32_t *postings;     /* chunk << 8 | count */
    uint8_t name_len;
};

void index_done(struct index *index)
{
    for (size_t i = 0; i < index->term_count; i++)
        free(index->terms[i].postings);
    free(index->terms);
    free(index->slots);
    free(index->names);
    free(index->vectors);
    free(index->scales);
    vec_done(&index->chunks);
    vec_done(&index->free);
    vec_done(&index->dead);
    vec_done(&index->shares);
    *index = (struct index){0};
}

/* --- Terms --- */

static struct str name_of(const struct index *index, const struct index_term *term)
{
    return str_n(index->names + term->name, term->name_len);
}

/* The slot that has the term, or the free one where it belongs. */
static size_t index_slot_of(const struct index *index, struct str name)
{
    size_t at = sip_hash(name) & (index->slot_count - 1);
    while (index->slots[at] != 0 &&
           !str_eq(name_of(index, &index->terms[index->slots[at] - 1]), name))
        at = (at + 1) & (index->slot_count - 1);
    return at;
}

static void grow_slots(struct index *index)
{
    free(index->slots);
    index->slot_count = index->slot_count == 0 ? 1024 : index->slot_count * 2;
    index->slots = mem_alloc(index->slot_count * sizeof *index->slots);
    for (size_t i = 0; i < index->term_count; i++)
        index->slots[index_slot_of(index, name_of(index, &index->terms[i]))] = (uint32_t)i + 1;
}

static uint32_t letters_of(struct str name)
{
    uint32_t set = 0;
    for (size_t i = 0; i < name.len; i++)
        set |= 1U << (name.ptr[i] & 31);
    return set;
}

static struct index_term *add_term(struct index *index, struct str name)
{
    if (index->term_count * 2 >= index->slot_count)
        grow_slots(index);
    size_t slot = index_slot_of(index, name);
    if (index->slots[slot] != 0)
        return &index->terms[index->slots[slot] - 1];
    if (index->names_len + name.len > index->names_cap) {
        index->names_cap = MAX(index->names_cap * 2, (size_t)64 << 10);
        index->names = mem_resize(index->names, index->names_cap);
    }
    if (index->term_count == index->term_cap) {
        index->term_cap = MAX(index->term_cap * 2, (size_t)1024);
        index->terms = mem_resize(index->terms, index->term_cap * sizeof *index->terms);
    }
    memcpy(index->names + index->names_len, name.ptr, name.len);
    struct index_term *term = &index->terms[index->term_count++];
    *term = (struct index_term){.name = (uint32_t)index->names_len,
                                .letters = letters_of(name),
                                .name_len = (uint8_t)name.len};
    index->names_len += name.len;
    index->slots[slot] = (uint32_t)index->term_count;
    return term;
}

static const struct index_term *find_term(const struct index *index, struct str name)
{
    if (index->slot_count == 0 || name.len == 0 || name.len > WORD_MAX)
        return NULL;
    size_t slot = index_slot_of(index, name);
    return index->slots[slot] == 0 ? NULL : &index->terms[index->slots[slot] - 1];
}

/* --- What a tenant sees --- */

static bool is_seen(const struct index *index, uint32_t tenant, uint32_t number)
{
    const struct index_chunk *chunk = &index->chunks.ptr[number];
    return chunk->row != 0 && (chunk->tenant == 0 || chunk->tenant == tenant);
}

static struct index_share share_of(const struct index *index, uint32_t tenant)
{
    struct index_share share = {0};
    if (index->shares.len > 0)
        share = index->shares.ptr[0];
    if (tenant != 0 && tenant < index->shares.len) {
        share.chunks += index->shares.ptr[tenant].chunks;
        share.words += index->shares.ptr[tenant].words;
    }
    return share;
}

static struct index_share *own_share(struct index *index, uint32_t tenant)
{
    while (index->shares.len <= tenant)
        *vec_push(&index->shares) = (struct index_share){0};
    return &index->shares.ptr[tenant];
}

static size_t frequency_of(const struct index *index, uint32_t tenant,
                           const struct index_term *term)
{
    size_t count = 0;
    if (share_of(index, tenant).chunks == index->chunk_count && index->dead.len == 0)
        return term->len; /* all chunks are seen */
    for (uint32_t i = 0; i < term->len; i++)
        count += is_seen(index, tenant, term->postings[i] >> 8);
    return count;
}

size_t index_chunks(const struct index *index, uint32_t tenant)
{
    return share_of(index, tenant).chunks;
}

size_t index_frequency(const struct index *index, uint32_t tenant, struct str name)
{
    const struct index_term *term = find_term(index, name);
    return term == NULL ? 0 : frequency_of(index, tenant, term);
}

/* --- Chunks --- */

struct counting {
    struct index *index;
    uint32_t chunk, weight, words;
};

/* Postings of a new chunk are the last of their terms, so a repeated term is found at once. */
static void count_word(void *ctx, struct str name, UNUSED struct str raw)
{
    struct counting *counting = ctx;
    struct index_term *term = add_term(counting->index, name);
    counting->words += 1;
    if (term->len > 0 && term->postings[term->len - 1] >> 8 == counting->chunk) {
        uint32_t count = term->postings[term->len - 1] & COUNT_MAX;
        term->postings[term->len - 1] =
            counting->chunk << 8 | MIN(count + counting->weight, (uint32_t)COUNT_MAX);
        return;
    }
    if (term->len == term->cap) {
        term->cap = term->cap == 0 ? 1 : term->cap + MAX(term->cap / 2, 1U);
        term->postings = mem_resize(term->postings, term->cap * sizeof *term->postings);
    }
    term->postings[term->len++] = counting->chunk << 8 | counting->weight;
}

/* A number that was free may be below those of later postings, so postings have no order. */
uint32_t index_add(struct index *index, const struct index_chunk *chunk, struct str heading_terms,
                   struct str terms)
{
    uint32_t number = (uint32_t)index->chunks.len;
    if (index->free.len > 0)
        number = vec_pop(&index->free);
    else
        (void)vec_push(&index->chunks);
    assert(number < INDEX_CHUNKS_MAX);
    struct counting counting = {index, number, HEADING_WEIGHT, 0};
    terms_each(heading_terms, count_word, &counting);
    counting.weight = 1;
    terms_each(terms, count_word, &counting);
    index->chunks.ptr[number] = *chunk;
    index->chunks.ptr[number].words = (uint16_t)MIN(counting.words, (uint32_t)UINT16_MAX);
    index->chunks.ptr[number].has_vector = false;
    struct index_share *share = own_share(index, chunk->tenant);
    share->words += index->chunks.ptr[number].words;
    share->chunks++;
    index->chunk_count++;
    return number;
}

static void clean_postings(struct index *index)
{
    for (size_t i = 0; i < index->term_count; i++) {
        struct index_term *term = &index->terms[i];
        uint32_t kept = 0;
        for (uint32_t j = 0; j < term->len; j++)
            if (index->chunks.ptr[term->postings[j] >> 8].row != 0)
                term->postings[kept++] = term->postings[j];
        term->len = kept;
    }
    VEC_EACH (number, &index->dead)
        *vec_push(&index->free) = *number;
    index->dead.len = 0;
}

void index_remove(struct index *index, uint32_t number)
{
    struct index_chunk *chunk = &index->chunks.ptr[number];
    assert(chunk->row != 0);
    struct index_share *share = own_share(index, chunk->tenant);
    share->words -= chunk->words;
    share->chunks--;
    index->chunk_count--;
    *chunk = (struct index_chunk){0};
    *vec_push(&index->dead) = number;
    if (index->dead.len >= DEAD_MIN && index->dead.len * DEAD_PART >= index->chunks.len)
        clean_postings(index);
}

size_t index_bytes(const struct index *index)
{
    size_t bytes = index->chunks.cap * sizeof *index->chunks.ptr + index->names_cap +
                   index->term_cap * sizeof *index->terms +
                   index->slot_count * sizeof *index->slots +
                   index->vector_cap * (index->dim + sizeof *index->scales);
    for (size_t i = 0; i < index->term_count; i++)
        bytes += index->terms[i].cap * sizeof *index->terms[i].postings + 16;
    return bytes;
}

/* --- Scores --- */

void index_score_term(const struct index *index, uint32_t tenant, struct str name, size_t frequency,
                      float weight, float *scores)
{
    const struct index_term *term = find_term(index, name);
    struct index_share share = share_of(index, tenant);
    if (term == NULL || share.chunks == 0)
        return;
    float count = (float)share.chunks, with = (float)frequency;
    float rarity = weight * logf(1 + (count - with + 0.5F) / (with + 0.5F));
    float mean = (float)share.words / count;
    for (uint32_t i = 0; i < term->len; i++) {
        uint32_t number = term->postings[i] >> 8;
        if (!is_seen(index, tenant, number))
            continue;
        float times = (float)(term->postings[i] & COUNT_MAX);
        float length = (float)index->chunks.ptr[number].words / mean;
        scores[number] +=
            rarity * times * (BM25_K1 + 1) / (times + BM25_K1 * (1 - BM25_B + BM25_B * length));
    }
}

/* --- Typing errors --- */

static size_t errors_allowed(struct str name)
{
    return name.len < 4 ? 0 : name.len < 8 ? 1 : 2;
}

/* A typing error changes at most two letters of the set. */
static bool may_be_near(const struct index_term *term, struct str name, uint32_t letters,
                        size_t allowed)
{
    size_t len = term->name_len;
    return term->len > 0 && len + allowed >= name.len && name.len + allowed >= len &&
           (size_t)__builtin_popcount(term->letters ^ letters) <= 2 * allowed;
}

struct str index_nearest(const struct index *index, uint32_t tenant, struct str name)
{
    const struct index_term *best = NULL;
    size_t allowed = errors_allowed(name), nearest = allowed, most = 0;
    uint32_t letters = letters_of(name);
    for (size_t i = 0; allowed > 0 && i < index->term_count; i++) {
        const struct index_term *term = &index->terms[i];
        if (!may_be_near(term, name, letters, allowed))
            continue;
        size_t distance = str_distance(name, name_of(index, term));
        size_t count = distance > nearest ? 0 : frequency_of(index, tenant, term);
        if (count == 0 || (distance == nearest && count <= most))
            continue;
        nearest = distance;
        most = count;
        best = term;
    }
    return best == NULL ? (struct str){0} : name_of(index, best);
}

/* --- Vectors --- */

static void grow_vectors(struct index *index)
{
    size_t cap = MAX(index->chunks.cap, (size_t)64);
    index->vectors = mem_resize(index->vectors, cap * index->dim);
    index->scales = mem_resize(index->scales, cap * sizeof *index->scales);
    index->vector_cap = cap;
}

void index_set_vector(struct index *index, uint32_t number, const int8_t *vector, float scale,
                      size_t dim)
{
    assert(index->dim == 0 || index->dim == dim);
    index->dim = dim;
    if (index->vector_cap < index->chunks.len)
        grow_vectors(index);
    memcpy(index->vectors + number * dim, vector, dim);
    index->scales[number] = scale;
    index->chunks.ptr[number].has_vector = true;
}

void index_score_vector(const struct index *index, const float *query, float *scores)
{
    float scale = 0;
    AUTO_MEM int8_t *rounded = mem_alloc(index->dim + 1);
    vector_round(query, index->dim, rounded, &scale);
    for (size_t i = 0; i < index->chunks.len; i++) {
        const struct index_chunk *chunk = &index->chunks.ptr[i];
        scores[i] = !chunk->has_vector
                        ? 0
                        : (float)vector_dot(index->vectors + i * index->dim, rounded, index->dim) *
                              index->scales[i] * scale;
    }
}
