/* Libraries of documents for the suite, and the measure of quality. */

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/map.h"
#include "search.h"
#include "search/directory.h"
#include "search/library_internal.h"

enum { LINE_MAX_BYTES = 1 << 20, TEXTS_AT_ONCE = 32, GAIN_MAX = 10, PARTS = 9 };

void give_up(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

/* --- Libraries --- */

void corpus_open(struct corpus *corpus, const char *name, const char *model_dir)
{
    struct err err = {0};
    char dir[256];
    (void)snprintf(dir, sizeof dir, "/tmp/sandglass-bench-%s-XXXXXX", name);
    if (mkdtemp(dir) == NULL)
        give_up("make a directory", dir);
    if (embed_model_open(model_dir, 2, &corpus->model, &err) < 0)
        corpus->model = NULL;
    if (library_open(dir, corpus->model == NULL ? STR("") : STR("bench"), NULL, &corpus->library,
                     &err) < 0)
        give_up("open the library", err.msg);
    /* It stays open; nothing of it is read by another process. */
    static const char *const files[] = {"docs.db", "docs.db-wal", "docs.db-shm"};
    for (size_t i = 0; i < countof(files); i++) {
        char path[300];
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

void corpus_close(struct corpus *corpus)
{
    corpus->library = library_free(corpus->library);
    corpus->model = embed_model_free(corpus->model);
    vec_done(&corpus->questions);
    arena_done(&corpus->arena);
}

void corpus_source(struct corpus *corpus, const char *package, char ret_id[17])
{
    struct err err = {0};
    library_source_id(STR("bench"), str_of(package), STR("bench"), ret_id);
    struct docs_source row = {.id = str_n(ret_id, 16),
                              .tenant = STR("bench"),
                              .kind = STR("upload"),
                              .package = str_of(package),
                              .location = STR("bench"),
                              .state = STR("ready")};
    if (library_put_source(corpus->library, &row, &err) < 0)
        give_up("add a source", err.msg);
}

void corpus_put(struct corpus *corpus, const char *source, struct str path, struct str title,
                struct str text, enum doc_format format)
{
    struct err err = {0};
    bool is_changed = false;
    struct library_page page = {.path = path, .title = title, .text = text, .format = format};
    if (library_put_page(corpus->library, str_of(source), &page, &is_changed, &err) < 0)
        give_up("add a page", err.msg);
}

/* Vectors of texts that another corpus had: the same pages are in several. */
static struct map known;

static void embed_some(struct corpus *corpus, const struct library_text *texts, size_t count)
{
    struct str list[TEXTS_AT_ONCE] = {0};
    size_t unknown = 0;
    float vectors[TEXTS_AT_ONCE * EMBED_DIMS], all[TEXTS_AT_ONCE * EMBED_DIMS];
    struct err err = {0};
    for (size_t i = 0; i < count; i++)
        if (!map_has(&known, texts[i].text))
            list[unknown++] = texts[i].text;
    embed_texts(corpus->model, list, unknown, vectors);
    for (size_t i = 0; i < unknown; i++)
        free(map_put(&known, list[i],
                     mem_dup(vectors + i * EMBED_DIMS, EMBED_DIMS * sizeof *vectors)));
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * EMBED_DIMS, map_get(&known, texts[i].text), EMBED_DIMS * sizeof *all);
    if (library_put_vectors(corpus->library, texts, count, all, EMBED_DIMS, &err) < 0)
        give_up("keep vectors", err.msg);
}

size_t corpus_embed(struct corpus *corpus)
{
    struct err err = {0};
    size_t bytes = 0;
    while (corpus->model != NULL) {
        AUTO_ARENA struct arena arena = {0};
        struct library_text *texts = NULL;
        size_t count = 0;
        if (library_unembedded(corpus->library, TEXTS_AT_ONCE, &arena, &texts, &count, &err) < 0)
            give_up("read texts", err.msg);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++)
            bytes += texts[i].text.len;
        embed_some(corpus, texts, count);
    }
    return bytes;
}

/* --- SciFact --- */

typedef void line_call(struct corpus *corpus, const struct json_t *row, void *ctx);

static bool each_line(struct corpus *corpus, const char *path, line_call *call, void *ctx)
{
    gzFile file = gzopen(path, "rb"); /* reads plain files as well */
    if (file == NULL)
        return false;
    AUTO_MEM char *line = mem_alloc(LINE_MAX_BYTES);
    while (gzgets(file, line, LINE_MAX_BYTES) != NULL) {
        AUTO_JSON struct json_t *row = NULL;
        struct err err = {0};
        if (json_parse(str_trim(str_of(line)), &row, &err) < 0)
            give_up(path, err.msg);
        call(corpus, row, ctx);
    }
    (void)gzclose(file);
    return true;
}

static struct str text_of(const struct json_t *row, const char *name)
{
    struct str text = {0};
    (void)!json_to_str(json_get(row, name), &text);
    return text;
}

static void add_document(struct corpus *corpus, const struct json_t *row, void *ctx)
{
    corpus_put(corpus, ctx, text_of(row, "id"), text_of(row, "title"), text_of(row, "text"),
               DOC_TEXT);
}

static void add_claim(struct corpus *corpus, const struct json_t *row, void *ctx)
{
    const char *judgements = ctx;
    struct str id = text_of(row, "id"), rest = str_of(judgements), line;
    struct question question = {.text = arena_dup(&corpus->arena, text_of(row, "text"))};
    question.targets = arena_array(&corpus->arena, struct str, 64);
    while (str_split(&rest, '\n', &line)) {
        struct str query, document, grade;
        if (str_split(&line, '\t', &query) && str_eq(query, id) &&
            str_split(&line, '\t', &document) && str_split(&line, '\t', &grade) &&
            !str_eq(str_trim(grade), STR("0")) && question.target_count < 64)
            question.targets[question.target_count++] = arena_dup(&corpus->arena, document);
    }
    if (question.target_count > 0)
        *vec_push(&corpus->questions) = question;
}

static bool read_whole(const char *path, struct buf *out)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && buf_read_all(out, fd, &err) == 0;
}

bool scifact_load(struct corpus *corpus, const char *dir)
{
    char path[512], source[17];
    AUTO_BUF struct buf judgements = {0};
    (void)snprintf(path, sizeof path, "%s/qrels.tsv", dir);
    if (!read_whole(path, &judgements))
        return false;
    corpus_source(corpus, "scifact", source);
    (void)snprintf(path, sizeof path, "%s/corpus.jsonl.gz", dir);
    if (!each_line(corpus, path, add_document, source))
        return false;
    (void)snprintf(path, sizeof path, "%s/queries.jsonl", dir);
    return each_line(corpus, path, add_claim, judgements.ptr);
}

/* --- Pages of documentation --- */

bool pages_load(struct corpus *corpus, const char *dir, size_t copies, size_t chunks_max)
{
    struct err err = {0};
    struct docs_upload *pages = NULL;
    size_t count = 0;
    char source[17];
    if (directory_read(str_of(dir), &corpus->arena, &pages, &count, &err) < 0)
        return false;
    corpus_source(corpus, "ai", source);
    for (size_t copy = 0; copy < copies; copy++)
        for (size_t i = 0; i < count; i++) {
            if (library_figures(corpus->library).chunks >= chunks_max)
                return true;
            struct str path =
                copy == 0 ? pages[i].path
                          : arena_printf(&corpus->arena, "%zu/%.*s", copy, STR_ARG(pages[i].path));
            corpus_put(corpus, source, path, pages[i].path, pages[i].text, DOC_MARKDOWN);
        }
    return count > 0;
}

bool questions_load(struct corpus *corpus, const char *file)
{
    AUTO_BUF struct buf text = {0};
    if (!read_whole(file, &text))
        return false;
    struct str rest = arena_dup(&corpus->arena, buf_str(&text)), line, part;
    while (str_split(&rest, '\n', &line)) {
        struct question question = {0};
        if (line.len == 0 || line.ptr[0] == '#' || !str_split(&line, '\t', &question.text))
            continue;
        question.targets = arena_array(&corpus->arena, struct str, 8);
        while (question.target_count < 8 && str_split(&line, '|', &part))
            question.targets[question.target_count++] = part;
        *vec_push(&corpus->questions) = question;
    }
    return true;
}

/* --- Targets --- */

/* "PAGE#SECTION" is part of the page's path and a heading of the path of headings. */
static bool is_target(struct str target, struct str url, struct str heading)
{
    size_t mark = str_find_char(target, '#');
    struct str page = str_slice(target, 0, mark), section = str_slice(target, mark + 1, target.len);
    bool is_page = mark == target.len && str_find_char(page, '/') == page.len &&
                           str_find_char(page, '-') == page.len
                       ? str_eq(page, url) /* a number */
                       : str_find(url, page) < url.len;
    return is_page && (section.len == 0 || str_find(heading, section) < heading.len);
}

struct place {
    struct arena *arena;
    struct str url, heading;
};

static void keep_heading(void *ctx, const struct docs_chunk *chunk)
{
    struct place *place = ctx;
    place->heading = arena_dup(place->arena, chunk->heading);
}

static void keep_url(void *ctx, const struct docs_page *page)
{
    struct place *place = ctx;
    place->url = arena_dup(place->arena, page->path);
}

void corpus_check_targets(struct corpus *corpus)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    const struct library *library = corpus->library;
    size_t count = library->index.chunks.len;
    struct place *places = arena_array(&arena, struct place, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct index_chunk *chunk = &library->index.chunks.ptr[i];
        places[i].arena = &arena;
        if (docs_get_chunk(library->docs, chunk->row, keep_heading, &places[i], &err) < 0 ||
            docs_get_page(library->docs, chunk->page, keep_url, &places[i], &err) < 0)
            give_up("read a chunk", err.msg);
    }
    VEC_EACH (question, &corpus->questions)
        for (size_t t = 0; t < question->target_count; t++) {
            size_t at = 0;
            while (at < count &&
                   !is_target(question->targets[t], places[at].url, places[at].heading))
                at++;
            if (at == count)
                give_up("no section is the answer of a question",
                        arena_printf(&arena, "%.*s: %.*s", STR_ARG(question->text),
                                     STR_ARG(question->targets[t]))
                            .ptr);
        }
}

/* --- Asking --- */

void corpus_ask(struct corpus *corpus, struct str text, enum how how, size_t limit,
                struct arena *arena, struct library_results *ret_results)
{
    struct err err = {0};
    float vector[EMBED_DIMS];
    struct library_query query = {.tenant = STR("bench"), .limit = limit};
    if (how != BY_MEANING)
        query.text = text;
    if (how != BY_WORDS) {
        embed_texts(corpus->model, &text, 1, vector);
        query.vector = vector;
    }
    if (library_search(corpus->library, &query, arena, ret_results, &err) < 0)
        give_up("search", err.msg);
}

static bool is_same_section(const struct library_result *a, const struct library_result *b)
{
    if (a->page != b->page)
        return false;
    /* "Title > Section": deeper headings are parts of the section. */
    size_t first = str_find(a->heading, STR(" > ")), other = str_find(b->heading, STR(" > "));
    struct str left = str_slice(a->heading, first, a->heading.len);
    struct str right = str_slice(b->heading, other, b->heading.len);
    struct str inner = str_slice(left, 3, left.len), inner_right = str_slice(right, 3, right.len);
    return str_eq(str_slice(inner, 0, str_find(inner, STR(" > "))),
                  str_slice(inner_right, 0, str_find(inner_right, STR(" > "))));
}

static double gain(const struct question *question, const struct library_results *results)
{
    double sum = 0, ideal = 0;
    bool used[64] = {false};
    size_t rank = 0;
    for (size_t i = 0; i < results->count && rank < GAIN_MAX; i++) {
        bool is_repeated = false;
        for (size_t j = 0; j < i && !is_repeated; j++)
            is_repeated = is_same_section(&results->items[i], &results->items[j]);
        if (is_repeated)
            continue;
        rank++;
        for (size_t t = 0; t < question->target_count; t++)
            if (!used[t] &&
                is_target(question->targets[t], results->items[i].url, results->items[i].heading)) {
                used[t] = true;
                sum += 1 / log2((double)rank + 1);
                break;
            }
    }
    for (size_t t = 0; t < MIN(question->target_count, (size_t)GAIN_MAX); t++)
        ideal += 1 / log2((double)t + 2);
    return ideal > 0 ? sum / ideal : 0;
}

static double score_one(struct corpus *corpus, struct question *question, enum how how)
{
    AUTO_ARENA struct arena arena = {0};
    struct library_results results = {0};
    struct err err = {0};
    struct library_query query = {
        .tenant = STR("bench"), .limit = RESULTS_MAX, .keyword_part = corpus->keyword_part};
    if (how != BY_MEANING)
        query.text = question->text;
    if (how != BY_WORDS && question->vector == NULL) {
        question->vector = arena_array(&corpus->arena, float, EMBED_DIMS);
        embed_texts(corpus->model, &question->text, 1, question->vector);
    }
    if (how != BY_WORDS)
        query.vector = question->vector;
    if (library_search(corpus->library, &query, &arena, &results, &err) < 0)
        give_up("search", err.msg);
    return gain(question, &results);
}

double corpus_score(struct corpus *corpus, enum how how)
{
    double sum = 0;
    VEC_EACH (question, &corpus->questions) {
        double one = score_one(corpus, question, how);
        if (getenv("SG_BENCH_VERBOSE") != NULL)
            (void)printf("%.2f %.*s\n", one, STR_ARG(question->text));
        sum += one;
    }
    return corpus->questions.len == 0 ? 0 : 100 * sum / (double)corpus->questions.len;
}

double corpus_held_out(struct corpus *corpus, float ret_parts[2])
{
    double sums[2][PARTS] = {0}; /* of every second question, by part */
    for (size_t part = 0; part < PARTS; part++) {
        corpus->keyword_part = (float)(part + 1) / (PARTS + 1);
        for (size_t i = 0; i < corpus->questions.len; i++)
            sums[i % 2][part] += score_one(corpus, &corpus->questions.ptr[i], BY_BOTH);
        (void)fprintf(stderr, "keywords %.1f: %.1f\n", (double)corpus->keyword_part,
                      100 * (sums[0][part] + sums[1][part]) / (double)corpus->questions.len);
    }
    corpus->keyword_part = 0;
    double sum = 0;
    for (size_t half = 0; half < 2; half++) {
        size_t best = 0;
        for (size_t part = 1; part < PARTS; part++)
            best = sums[half][part] > sums[half][best] ? part : best;
        ret_parts[half] = (float)(best + 1) / (PARTS + 1);
        sum += sums[1 - half][best];
    }
    return 100 * sum / (double)corpus->questions.len;
}
