/* A question: its terms, the score of every chunk, the best ones that may be seen. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "search/excerpt.h"
#include "search/library_internal.h"

enum {
    OFTEN_MIN = 200, /* chunks from which a term can be too frequent to count, */
    OFTEN_PART = 2,  /* and in one of how many chunks it is then */
};

/* How much the words count when there are vectors, and how much of a chunk's score is that of its
 * page (docs/SEARCH.md says how they were chosen). */
static const float KEYWORD_PART = 0.35F, PAGE_PART = 0.2F;
static const float CORRECTED_WEIGHT = 0.7F; /* how much a corrected word counts */
/* A cosine below that is no result unless a word is found. */
static const float COSINE_MIN = 0.25F;

/* --- Terms --- */

struct term {
    char text[WORD_MAX];
    size_t len, frequency; /* of index_frequency */
    float weight;
    bool is_common, is_corrected;
};

struct asking {
    struct library *library;
    const struct library_query *query;
    struct arena *arena;
    uint32_t tenant;
    struct term terms[INDEX_TERMS_MAX];
    size_t term_count;
    float *scores, *cosines; /* by chunk; cosines may be NULL */
};

static struct str term_text(const struct term *term)
{
    return str_n(term->text, term->len);
}

static void add_term(void *ctx, struct str text, struct str raw)
{
    struct asking *asking = ctx;
    for (size_t i = 0; i < asking->term_count; i++)
        if (str_eq(term_text(&asking->terms[i]), text))
            return;
    if (asking->term_count == INDEX_TERMS_MAX)
        return;
    struct term *term = &asking->terms[asking->term_count++];
    *term = (struct term){.len = text.len, .weight = 1, .is_common = word_is_common(raw)};
    memcpy(term->text, text.ptr, text.len);
}

/* A term that no chunk of the tenant has becomes the nearest one that some chunk has. */
static void correct_terms(struct asking *asking)
{
    const struct index *index = &asking->library->index;
    for (size_t i = 0; i < asking->term_count; i++) {
        struct term *term = &asking->terms[i];
        term->frequency = index_frequency(index, asking->tenant, term_text(term));
        if (term->frequency > 0)
            continue;
        struct str near = index_nearest(index, asking->tenant, term_text(term));
        if (near.len == 0)
            continue;
        memcpy(term->text, near.ptr, near.len);
        term->len = near.len;
        term->frequency = index_frequency(index, asking->tenant, near);
        term->weight = CORRECTED_WEIGHT;
        term->is_corrected = true;
    }
}

static bool is_too_frequent(const struct term *term, size_t chunks)
{
    return term->is_common || (chunks >= OFTEN_MIN && term->frequency * OFTEN_PART > chunks);
}

/* Unless nothing else is left: "what is it" is a question too. */
static void drop_frequent(struct asking *asking)
{
    size_t chunks = index_chunks(&asking->library->index, asking->tenant), kept = 0;
    for (size_t i = 0; i < asking->term_count; i++)
        if (!is_too_frequent(&asking->terms[i], chunks) && asking->terms[i].frequency > 0)
            kept++;
    if (kept == 0)
        return;
    kept = 0;
    for (size_t i = 0; i < asking->term_count; i++)
        if (!is_too_frequent(&asking->terms[i], chunks))
            asking->terms[kept++] = asking->terms[i];
    asking->term_count = kept;
}

/* --- Filters --- */

struct filter {
    bool is_empty; /* a name that no chunk has */
    uint32_t tenant, package, session;
    uint32_t language, docs_language; /* of modules, of documents; 0: any */
    bool docs, modules;
    const int64_t *left_out;
    size_t left_out_count;
};

/* A number that no chunk has, for a language that no chunk has. */
static uint32_t language_number(const struct library *library, struct str language)
{
    uint32_t number = library_name(library, language);
    return number == 0 && language.len > 0 ? UINT32_MAX : number;
}

static struct filter filter_of(const struct library *library, const struct library_query *query)
{
    struct filter filter = {
        .tenant = library_name(library, query->tenant),
        .package = library_name(library, query->package),
        .session = library_name(library, query->session),
        .language = language_number(library, query->language),
        .left_out = query->left_out,
        .left_out_count = query->left_out_count,
        .docs = !str_eq(query->kind, STR("module")),
        .modules = !str_eq(query->kind, STR("doc")),
    };
    /* What is written for JavaScript is read for TypeScript too. */
    filter.docs_language = str_eq(query->language, STR("typescript"))
                               ? language_number(library, STR("javascript"))
                               : filter.language;
    filter.is_empty = query->package.len > 0 && filter.package == 0;
    return filter;
}

static bool library_search_is_left_out(const struct filter *filter, int64_t page)
{
    for (size_t i = 0; i < filter->left_out_count; i++)
        if (filter->left_out[i] == page)
            return true;
    return false;
}

static bool is_in_language(const struct filter *filter, const struct index_chunk *chunk)
{
    uint32_t wanted = chunk->kind == DOC_PAGE ? filter->docs_language : filter->language;
    return wanted == 0 || chunk->language == 0 || chunk->language == wanted;
}

static bool is_visible(const struct filter *filter, const struct index_chunk *chunk)
{
    if (chunk->row == 0 || (chunk->tenant != 0 && chunk->tenant != filter->tenant) ||
        (filter->package != 0 && chunk->package != filter->package) ||
        !is_in_language(filter, chunk) || library_search_is_left_out(filter, chunk->page))
        return false;
    if (chunk->kind == DOC_PAGE)
        return filter->docs;
    return filter->modules &&
           (chunk->is_shared || (filter->session != 0 && chunk->session == filter->session));
}

/* --- Ranking --- */

struct hit {
    uint32_t number;
    float score;
};

struct extremes {
    float best, nearest; /* of the chunks that may be seen */
};

static struct extremes find_extremes(struct asking *asking, const struct filter *filter)
{
    const struct index *index = &asking->library->index;
    struct extremes found = {0};
    for (size_t i = 0; i < index->chunks.len; i++) {
        if (!is_visible(filter, &index->chunks.ptr[i])) {
            asking->scores[i] = -1;
            continue;
        }
        found.best = fmaxf(found.best, asking->scores[i]);
        if (asking->cosines != NULL)
            found.nearest = fmaxf(found.nearest, asking->cosines[i]);
    }
    return found;
}

/* Both kinds are brought to 0..1 and added: a convex sum keeps how far apart results are, which
 * ranks do not. */
static float joined_score(const struct asking *asking, size_t number, const struct extremes *of)
{
    float part = asking->query->keyword_part > 0 ? asking->query->keyword_part : KEYWORD_PART;
    float cosine = asking->cosines[number];
    float words = of->best > 0 ? asking->scores[number] / of->best : 0, near = 0;
    if (words <= 0 && cosine < COSINE_MIN)
        return 0;
    if (!asking->library->index.chunks.ptr[number].has_vector)
        near = words; /* it has the rank of its words meanwhile */
    else if (of->nearest > 0)
        near = fmaxf(cosine, 0) / of->nearest;
    return part * words + (1 - part) * near;
}

/* Of two chunks that are equally good, the one comes first whose page has more about the question.
 * The chunks of a page have numbers one behind the other; where others were removed before, they
 * may be in several pieces, each with a mean of its own. */
static void add_pages(struct asking *asking)
{
    const struct index_chunk *chunks = asking->library->index.chunks.ptr;
    size_t count = asking->library->index.chunks.len, end = 0;
    for (size_t start = 0; start < count; start = end) {
        float sum = 0;
        for (end = start; end < count && chunks[end].page == chunks[start].page; end++)
            sum += fmaxf(asking->scores[end], 0);
        float mean = sum / (float)(end - start);
        for (size_t i = start; i < end; i++)
            if (asking->scores[i] > 0)
                asking->scores[i] = (1 - PAGE_PART) * asking->scores[i] + PAGE_PART * mean;
    }
}

static void join_scores(struct asking *asking, const struct filter *filter)
{
    struct extremes of = find_extremes(asking, filter);
    for (size_t i = 0; i < asking->library->index.chunks.len; i++)
        if (asking->scores[i] >= 0)
            asking->scores[i] = asking->cosines != NULL ? joined_score(asking, i, &of)
                                : of.best > 0           ? asking->scores[i] / of.best
                                                        : 0;
    if (asking->cosines != NULL && of.best > 0)
        add_pages(asking);
}

/* The best `max`, best first; all hits are counted. */
static size_t best_of(const struct asking *asking, struct hit *hits, size_t max, size_t *ret_total)
{
    size_t count = 0, total = 0;
    for (size_t i = 0; i < asking->library->index.chunks.len; i++) {
        float score = asking->scores[i];
        if (score <= 0)
            continue;
        total++;
        if (count == max && score <= hits[count - 1].score)
            continue;
        size_t at = count < max ? count++ : count - 1;
        for (; at > 0 && hits[at - 1].score < score; at--)
            hits[at] = hits[at - 1];
        hits[at] = (struct hit){(uint32_t)i, score};
    }
    *ret_total = total;
    return count;
}

/* --- Results --- */

struct reading {
    struct asking *asking;
    struct library_result *result;
    struct str source;
    int64_t start, length;
    size_t neighbours;
};

static void read_chunk(void *ctx, const struct docs_chunk *chunk)
{
    struct reading *reading = ctx;
    (void)snprintf(reading->result->key, sizeof reading->result->key, "%.*s", STR_ARG(chunk->key));
    reading->result->position = chunk->position;
    reading->result->heading = arena_dup(reading->asking->arena, chunk->heading);
    reading->start = chunk->start;
    reading->length = chunk->length;
}

static bool is_inside_char(struct str text, size_t at)
{
    return at < text.len && ((unsigned char)text.ptr[at] & 0xc0) == 0x80;
}

/* The text from `from` to `end` begins with a whole line there; where it is part of one line only,
 * with a whole character. */
static size_t whole_from(struct str text, size_t from, size_t end)
{
    if (from == 0 || text.ptr[from - 1] == '\n')
        return from;
    size_t line = from + str_find_char(str_slice(text, from, end), '\n');
    if (line < end)
        return line + 1;
    while (from < end && is_inside_char(text, from))
        from++;
    return from;
}

/* The same for the end of the text from `start` to `to`. */
static size_t whole_to(struct str text, size_t start, size_t to)
{
    size_t at = to;
    if (to == text.len)
        return to;
    while (at > start && text.ptr[at] != '\n')
        at--;
    if (at > start)
        return at;
    while (to > start && is_inside_char(text, to))
        to--;
    return to;
}

static void library_search_read_page(void *ctx, const struct docs_page *page)
{
    struct reading *reading = ctx;
    struct arena *arena = reading->asking->arena;
    struct library_result *result = reading->result;
    result->page = page->id;
    result->url = arena_dup(arena, page->path);
    result->title = arena_dup(arena, page->title);
    size_t start = (size_t)reading->start, end = start + (size_t)reading->length;
    size_t room = reading->neighbours * CHUNK_BYTES;
    result->content = arena_dup(arena, str_slice(page->text, start, end));
    if (room == 0)
        return;
    size_t from = whole_from(page->text, start > room ? start - room : 0, start);
    size_t to = whole_to(page->text, end, MIN(end + room, page->text.len));
    result->before = arena_dup(arena, str_trim(str_slice(page->text, from, start)));
    result->after = arena_dup(arena, str_trim(str_slice(page->text, end, to)));
}

static struct str name_text(const struct library *library, uint32_t number)
{
    MAP_EACH (entry, &library->names)
        if ((uint32_t)(uintptr_t)entry->value == number)
            return entry->key;
    return (struct str){0};
}

static int read_result(struct asking *asking, const struct hit *hit,
                       struct library_result *ret_result, struct err *err)
{
    const struct index_chunk *chunk = &asking->library->index.chunks.ptr[hit->number];
    struct reading reading = {
        .asking = asking, .result = ret_result, .neighbours = asking->query->neighbours};
    struct str terms[INDEX_TERMS_MAX];
    for (size_t i = 0; i < asking->term_count; i++)
        terms[i] = term_text(&asking->terms[i]);
    if (docs_get_chunk(asking->library->docs, chunk->row, read_chunk, &reading, err) < 0 ||
        docs_get_page(asking->library->docs, chunk->page, library_search_read_page, &reading, err) <
            0)
        return -1;
    ret_result->is_module = chunk->kind == DOC_MODULE;
    ret_result->score = hit->score;
    ret_result->package = arena_dup(asking->arena, name_text(asking->library, chunk->package));
    ret_result->session = ret_result->is_module
                              ? arena_dup(asking->arena, name_text(asking->library, chunk->session))
                              : (struct str){0};
    ret_result->excerpt =
        excerpt_around(ret_result->content, terms, asking->term_count, EXCERPT_MAX);
    return 0;
}

static int read_results(struct asking *asking, struct library_results *results, struct err *err)
{
    const struct library_query *query = asking->query;
    size_t limit = query->limit == 0 ? RESULTS_DEFAULT : MIN(query->limit, (size_t)RESULTS_MAX);
    size_t max = limit + MIN(query->offset, (size_t)10000);
    struct hit *hits = arena_array(asking->arena, struct hit, max + 1);
    size_t count = best_of(asking, hits, max, &results->total);
    size_t from = MIN(query->offset, count);
    results->items = arena_array(asking->arena, struct library_result, count - from + 1);
    for (size_t i = from; i < count; i++)
        if (read_result(asking, &hits[i], &results->items[results->count++], err) < 0)
            return -1;
    return 0;
}

/* --- Corrected words --- */

struct naming {
    struct str stem, word;
    struct arena *arena;
};

static void name_stem(void *ctx, struct str stem, struct str word)
{
    struct naming *naming = ctx;
    if (naming->word.len == 0 && str_eq(stem, naming->stem))
        naming->word = arena_dup(naming->arena, word);
}

/* The index has only stems: the word is the one that the results have. */
static struct str word_of(const struct asking *asking, const struct library_results *results,
                          const struct term *term)
{
    struct naming naming = {.stem = term_text(term), .arena = asking->arena};
    for (size_t i = 0; i < results->count && naming.word.len == 0; i++) {
        words_each(results->items[i].heading, name_stem, &naming);
        words_each(results->items[i].content, name_stem, &naming);
    }
    return naming.word.len > 0 ? naming.word : naming.stem;
}

static struct str corrected_words(const struct asking *asking,
                                  const struct library_results *results)
{
    AUTO_BUF struct buf words = {0};
    for (size_t i = 0; i < asking->term_count; i++) {
        if (!asking->terms[i].is_corrected)
            continue;
        if (words.len > 0)
            buf_put_char(&words, ' ');
        buf_put(&words, word_of(asking, results, &asking->terms[i]));
    }
    return arena_dup(asking->arena, buf_str(&words));
}

static int library_search_ask(struct asking *asking, struct library_results *results,
                              struct err *err)
{
    struct index *index = &asking->library->index;
    struct filter filter = filter_of(asking->library, asking->query);
    struct str text = str_slice(asking->query->text, 0, QUERY_MAX);
    asking->tenant = filter.tenant;
    words_each(text, add_term, asking);
    correct_terms(asking);
    drop_frequent(asking);
    if (filter.is_empty || (asking->term_count == 0 && asking->query->vector == NULL))
        return 0;
    for (size_t i = 0; i < asking->term_count; i++)
        index_score_term(index, asking->tenant, term_text(&asking->terms[i]),
                         asking->terms[i].frequency, asking->terms[i].weight, asking->scores);
    results->has_vectors = asking->query->vector != NULL && index->dim > 0;
    if (results->has_vectors) {
        asking->cosines = arena_array(asking->arena, float, index->chunks.len + 1);
        index_score_vector(index, asking->query->vector, asking->cosines);
    }
    join_scores(asking, &filter);
    return read_results(asking, results, err);
}

int library_search(struct library *library, const struct library_query *query, struct arena *arena,
                   struct library_results *ret_results, struct err *err)
{
    struct library_results results = {0};
    struct asking asking = {.library = library, .query = query, .arena = arena};
    AUTO_MEM float *scores = mem_alloc((library->index.chunks.len + 1) * sizeof *scores);
    asking.scores = scores;
    int result = library_search_ask(&asking, &results, err);
    if (result < 0)
        return -1;
    results.corrected = corrected_words(&asking, &results);
    *ret_results = results;
    return 0;
}
