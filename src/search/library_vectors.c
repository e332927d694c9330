/* Embeddings: which chunks still need one, and taking them in. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "search/library_internal.h"
#include "search/scan.h"

enum {
    DIM_MAX = 4096,
    WINDOW_BYTES = 480, /* about 128 tokens, the length that the model was trained with */
    WINDOWS_MAX = 8,    /* of a chunk; the rest of it is ignored */
};
static_assert((int)CHUNK_BYTES_MAX <= (int)WINDOW_BYTES * (int)WINDOWS_MAX, "a chunk fits");

/* --- Windows --- */

static size_t window_count(size_t len)
{
    return len <= WINDOW_BYTES ? 1
                               : MIN((len + WINDOW_BYTES - 1) / WINDOW_BYTES, (size_t)WINDOWS_MAX);
}

/* Where window `at` of `count` begins: behind a blank near the place that makes all equally long.
 */
static size_t window_start(struct str text, size_t at, size_t count)
{
    size_t place = text.len * at / count, end = MIN(place + WINDOW_BYTES / 4, text.len);
    if (at == 0 || at == count)
        return place;
    for (size_t i = place; i < end; i++)
        if (text.ptr[i] == ' ' || text.ptr[i] == '\n')
            return i + 1;
    while (place < text.len && ((unsigned char)text.ptr[place] & 0xc0) == 0x80)
        place++;
    return place;
}

/* What is embedded of a chunk: its windows, each with the heading. The mean of their vectors is the
 * chunk's. */
static void put_windows(struct str heading, struct str text, struct library_text of,
                        struct arena *arena, struct library_text *out)
{
    size_t count = window_count(text.len);
    for (size_t i = 0; i < count; i++) {
        struct str part =
            str_slice(text, window_start(text, i, count), window_start(text, i + 1, count));
        out[i] = of;
        out[i].text = arena_printf(arena, "%.*s: %.*s", STR_ARG(heading), STR_ARG(part));
    }
}

/* Of as many texts as belong to the first one's chunk: how many they are. */
static size_t mean_of_windows(const struct library_text *texts, size_t count, const float *vectors,
                              size_t dim, float *out)
{
    size_t windows = 1;
    double length = 0;
    while (windows < count && texts[windows].number == texts[0].number)
        windows++;
    for (size_t i = 0; i < dim; i++) {
        out[i] = 0;
        for (size_t at = 0; at < windows; at++)
            out[i] += vectors[at * dim + i];
        length += (double)out[i] * (double)out[i];
    }
    for (size_t i = 0; i < dim && length > 0; i++)
        out[i] = (float)((double)out[i] / sqrt(length));
    return windows;
}

/* --- Vectors that are known --- */

static void set_vector(struct library *library, uint32_t number, struct str bytes)
{
    float scale = 0;
    if (bytes.len <= sizeof scale || bytes.len - sizeof scale > DIM_MAX ||
        (library->index.dim != 0 && library->index.dim != bytes.len - sizeof scale))
        return;
    memcpy(&scale, bytes.ptr, sizeof scale);
    library->vector_count += !library->index.chunks.ptr[number].has_vector;
    index_set_vector(&library->index, number,
                     (const int8_t *)(const void *)(bytes.ptr + sizeof scale), scale,
                     bytes.len - sizeof scale);
}

struct taking {
    struct library *library;
    uint32_t number;
};

static void take_vector(void *ctx, const struct docs_vector *vector)
{
    const struct taking *taking = ctx;
    set_vector(taking->library, taking->number, vector->bytes);
}

int library_take_vector(struct library *library, uint32_t number, struct str hash, struct err *err)
{
    struct taking taking = {library, number};
    if (library->model[0] == '\0')
        return 0;
    return docs_get_vector(library->docs, str_of(library->model), hash, take_vector, &taking, err);
}

struct by_hash {
    uint64_t hash;
    uint32_t number;
};

struct loading {
    struct library *library;
    struct by_hash *chunks;
    size_t count;
};

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct by_hash *)a)->hash, y = ((const struct by_hash *)b)->hash;
    return x < y ? -1 : x > y;
}

static void load_vector(void *ctx, const struct docs_vector *vector)
{
    const struct loading *loading = ctx;
    uint64_t hash = library_short_hash(vector->hash);
    size_t low = 0, high = loading->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (loading->chunks[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < loading->count && loading->chunks[low].hash == hash; low++)
        set_vector(loading->library, loading->chunks[low].number, vector->bytes);
}

int library_load_vectors(struct library *library, struct err *err)
{
    struct loading loading = {.library = library};
    struct str model = str_of(library->model);
    if (model.len == 0)
        return 0;
    AUTO_MEM struct by_hash *chunks = mem_alloc((library->index.chunks.len + 1) * sizeof *chunks);
    loading.chunks = chunks;
    for (size_t i = 0; i < library->index.chunks.len; i++)
        loading.chunks[loading.count++] =
            (struct by_hash){library->index.chunks.ptr[i].hash, (uint32_t)i};
    qsort(loading.chunks, loading.count, sizeof *loading.chunks, compare);
    return docs_sweep_vectors(library->docs, model, err) < 0 ||
                   docs_each_vector(library->docs, model, load_vector, &loading, err) < 0
               ? -1
               : 0;
}

int library_use_model(struct library *library, struct str model, struct err *err)
{
    assert(library->model[0] == '\0');
    AUTO_BUF struct buf name = {0};
    buf_put(&name, model);
    free(library->model);
    library->model = mem_dup_cstr(buf_cstr(&name));
    return library_load_vectors(library, err);
}

/* --- New ones --- */

struct text_of_chunk {
    struct arena *arena;
    struct str heading, text;
    char hash[65];
    int64_t start, length;
};

static void read_chunk(void *ctx, const struct docs_chunk *chunk)
{
    struct text_of_chunk *of = ctx;
    of->heading = arena_dup(of->arena, chunk->heading);
    (void)snprintf(of->hash, sizeof of->hash, "%.*s", STR_ARG(chunk->hash));
    of->start = chunk->start;
    of->length = chunk->length;
}

static void read_text(void *ctx, const struct docs_page *page)
{
    struct text_of_chunk *of = ctx;
    of->text = arena_dup(of->arena, str_slice(page->text, (size_t)of->start,
                                              (size_t)of->start + (size_t)of->length));
}

int library_unembedded(struct library *library, size_t max, struct arena *arena,
                       struct library_text **ret_texts, size_t *ret_count, struct err *err)
{
    assert(max >= WINDOWS_MAX);
    struct library_text *texts = arena_array(arena, struct library_text, max + 1);
    size_t count = 0;
    for (size_t i = 0; i < library->index.chunks.len && count < max; i++) {
        const struct index_chunk *chunk = &library->index.chunks.ptr[i];
        struct text_of_chunk of = {.arena = arena};
        if (chunk->row == 0 || chunk->has_vector)
            continue;
        /* The same content may have got its vector elsewhere since. */
        if (docs_get_chunk(library->docs, chunk->row, read_chunk, &of, err) < 0 ||
            library_take_vector(library, (uint32_t)i, str_of(of.hash), err) < 0)
            return -1;
        if (chunk->has_vector)
            continue;
        if (docs_get_page(library->docs, chunk->page, read_text, &of, err) < 0)
            return -1;
        size_t windows = window_count(of.text.len);
        if (count + windows > max)
            break;
        put_windows(of.heading, of.text,
                    (struct library_text){.number = (uint32_t)i, .hash = chunk->hash}, arena,
                    texts + count);
        count += windows;
    }
    *ret_texts = texts;
    *ret_count = count;
    return 0;
}

static void read_hash(void *ctx, const struct docs_chunk *chunk)
{
    (void)snprintf(ctx, 65, "%.*s", STR_ARG(chunk->hash));
}

static int put_vector(struct library *library, uint32_t number, const float *vector, size_t dim,
                      struct err *err)
{
    char hash[65] = "", bytes[sizeof(float) + DIM_MAX];
    float scale = 0;
    vector_round(vector, dim, (int8_t *)(void *)(bytes + sizeof scale), &scale);
    memcpy(bytes, &scale, sizeof scale);
    struct str all = str_n(bytes, sizeof scale + dim);
    if (docs_get_chunk(library->docs, library->index.chunks.ptr[number].row, read_hash, hash, err) <
            0 ||
        docs_put_vector(library->docs, str_of(library->model),
                        &(struct docs_vector){str_of(hash), all}, err) < 0)
        return -1;
    set_vector(library, number, all);
    return 0;
}

int library_put_vectors(struct library *library, const struct library_text *texts, size_t count,
                        const float *vectors, size_t dim, struct err *err)
{
    assert(dim <= DIM_MAX);
    if (docs_begin(library->docs, err) < 0)
        return -1;
    for (size_t i = 0, windows = 0; i < count; i += windows) {
        float mean[DIM_MAX];
        uint32_t number = texts[i].number;
        windows = mean_of_windows(texts + i, count - i, vectors + i * dim, dim, mean);
        const struct index_chunk *chunk = &library->index.chunks.ptr[number];
        if (number < library->index.chunks.len && chunk->row != 0 && chunk->hash == texts[i].hash &&
            !chunk->has_vector && put_vector(library, number, mean, dim, err) < 0) {
            docs_rollback(library->docs);
            return -1;
        }
    }
    return docs_commit(library->docs, err);
}
