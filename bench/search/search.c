/* How well documents are found, and how fast.
 *
 * Quality is nDCG@10 in percent: on SciFact (../shared/scifact, or SG_SCIFACT; its rows are left
 * out where it is missing) and on the pages of the npm package `ai` with the questions of
 * questions.tsv. Speed is that of one question in a library of that size, the question's
 * embedding included where the row does not say keyword. */

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench.h"
#include "search.h"
#include "search/library_internal.h"

#define MODEL_DIR "build/runtimes/models/files/minilm"
#define PAGES_DIR "build/npm/sdk/node_modules/ai/docs"
#define QUESTIONS "bench/search/questions.tsv"

enum { SAMPLES = 600 };

static const char *or_env(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value != NULL ? value : fallback;
}

struct score_names {
    const char *words, *meaning, *both, *held_out;
};

static void held_out_row(struct bench *bench, struct corpus *corpus, const char *name)
{
    static char notes[2][64]; /* until the table is printed */
    static size_t count;
    float parts[2] = {0};
    char *note = notes[count++];
    double score = corpus_held_out(corpus, parts);
    (void)snprintf(note, sizeof notes[0], "keywords %.1f and %.1f, chosen on the other half",
                   (double)parts[1], (double)parts[0]);
    bench_figure(bench, name, "nDCG@10", score, NULL, note);
}

static void score_rows(struct bench *bench, struct corpus *corpus, const struct score_names *names)
{
    bench_figure(bench, names->words, "nDCG@10", corpus_score(corpus, BY_WORDS), NULL, NULL);
    if (corpus->model == NULL)
        return;
    int64_t begun = clock_now_ns();
    size_t bytes = corpus_embed(corpus);
    double seconds = (double)(clock_now_ns() - begun) / 1e9;
    (void)fprintf(stderr, "embedded %zu bytes in %.1f s\n", bytes, seconds);
    bench_figure(bench, names->meaning, "nDCG@10", corpus_score(corpus, BY_MEANING), NULL, NULL);
    bench_figure(bench, names->both, "nDCG@10", corpus_score(corpus, BY_BOTH), names->words, NULL);
    held_out_row(bench, corpus, names->held_out);
}

static void quality(struct bench *bench)
{
    struct corpus scifact = {0}, pages = {0};
    corpus_open(&scifact, "scifact", or_env("SG_MODEL", MODEL_DIR));
    if (scifact_load(&scifact, or_env("SG_SCIFACT", "../shared/scifact")))
        score_rows(bench, &scifact,
                   &(struct score_names){"scifact_bm25", "scifact_dense", "scifact_hybrid",
                                         "scifact_hybrid_held_out"});
    corpus_close(&scifact);
    corpus_open(&pages, "docs", or_env("SG_MODEL", MODEL_DIR));
    if (pages_load(&pages, PAGES_DIR, 1, SIZE_MAX) && questions_load(&pages, QUESTIONS)) {
        corpus_check_targets(&pages);
        score_rows(bench, &pages,
                   &(struct score_names){"docs_bm25", "docs_dense", "docs_hybrid",
                                         "docs_hybrid_held_out"});
        served_rows(bench, PAGES_DIR, MODEL_DIR, pages.questions.ptr, pages.questions.len);
    }
    corpus_close(&pages);
}

static void time_row(struct bench *bench, struct corpus *corpus, const char *name, enum how how)
{
    static double samples[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++) {
        AUTO_ARENA struct arena arena = {0};
        struct library_results results = {0};
        struct str text = corpus->questions.ptr[i % corpus->questions.len].text;
        int64_t begun = clock_now_ns();
        corpus_ask(corpus, text, how, RESULTS_DEFAULT, &arena, &results);
        samples[i] = (double)(clock_now_ns() - begun) / 1e3;
    }
    bench_samples(bench, name, "us", samples, SAMPLES, NULL, NULL);
}

/* The comparison of one vector with those of all chunks. */
static void scan_row(struct bench *bench, struct corpus *corpus, const char *name)
{
    static double samples[SAMPLES];
    const struct index *index = &corpus->library->index;
    AUTO_MEM float *scores = mem_alloc((index->chunks.len + 1) * sizeof *scores);
    float vector[EMBED_DIMS];
    embed_texts(corpus->model, &corpus->questions.ptr[0].text, 1, vector);
    for (size_t i = 0; i < SAMPLES; i++) {
        int64_t begun = clock_now_ns();
        index_score_vector(index, vector, scores);
        samples[i] = (double)(clock_now_ns() - begun) / 1e3;
    }
    bench_samples(bench, name, "us", samples, SAMPLES, NULL, "vectors only");
}

struct speed_names {
    const char *both, *words, *scan, *indexing, *memory;
};

static void speed(struct bench *bench, size_t chunks, const struct speed_names *names)
{
    struct corpus corpus = {0};
    corpus_open(&corpus, "speed", or_env("SG_MODEL", MODEL_DIR));
    int64_t begun = clock_now_ns();
    if (!pages_load(&corpus, PAGES_DIR, 1000, chunks) || !questions_load(&corpus, QUESTIONS)) {
        corpus_close(&corpus);
        return;
    }
    if (names->indexing != NULL)
        bench_figure(bench, names->indexing, "ms", (double)(clock_now_ns() - begun) / 1e6, NULL,
                     "without the process that reads");
    time_row(bench, &corpus, names->words, BY_WORDS);
    (void)corpus_embed(&corpus);
    if (corpus.model != NULL) {
        time_row(bench, &corpus, names->both, BY_BOTH);
        scan_row(bench, &corpus, names->scan);
    }
    if (names->memory != NULL)
        bench_figure(bench, names->memory, "MB",
                     (double)library_figures(corpus.library).bytes / 1e6, NULL,
                     "as the library counts it");
    corpus_close(&corpus);
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin("search");
    embed_rows(bench);
    quality(bench);
    speed(bench, 10000,
          &(struct speed_names){"query_10k", "keyword_10k", "scan_10k", "index_10k", "memory_10k"});
    speed(bench, 100000,
          &(struct speed_names){"query_100k", "keyword_100k", "scan_100k", NULL, NULL});
    return bench_end(bench, argc, argv);
}
