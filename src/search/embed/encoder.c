#include "search/embed/encoder.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "search/embed/model.h"
#include "search/embed/path.h"
#include "search/embed/weights.h"
#include "search/embed/workers.h"

enum {
    LAYERS = 6,
    HIDDEN = PATH_HIDDEN,
    INNER = 4 * HIDDEN,
    HEADS = HIDDEN / PATH_HEAD,
    POSITIONS = 512,
    /* Rows of one step: its inputs stay in the cache, and a query waits for one step at most. */
    STEP_ROWS = 96,
    NORM_ROWS = 8,
    ALIGN = 64,
};
static_assert((int)HIDDEN == (int)EMBED_DIMS && (int)EMBED_TOKENS_MAX <= (int)PATH_KEYS_MAX,
              "one size for all");

/* A matrix in panels, with its bias. */
struct dense {
    char *panels;
    float *bias;
    size_t inputs, outputs;
};

struct norm {
    float scale[HIDDEN], shift[HIDDEN];
};

struct layer {
    struct dense qkv, mix, up, down;
    struct norm after_mix, after_down;
};

struct encoder {
    const struct path *path;
    struct workers *workers;
    const char *words, *positions, *types; /* rows of HIDDEN half floats */
    struct norm after_words;
    struct layer layers[LAYERS];
};

/* ---- weights ---- */

struct loading {
    struct encoder *encoder;
    const struct weights *weights;
    size_t layer;
};

static void *aligned(size_t size)
{
    void *ptr = aligned_alloc(ALIGN, (size + ALIGN - 1) / ALIGN * ALIGN);
    assert(ptr != NULL);
    return ptr;
}

static int find_layered(const struct loading *loading, const char *part, const char *which,
                        size_t rows, size_t columns, const char **ret_halves, struct err *err)
{
    char name[128];
    (void)snprintf(name, sizeof name, "encoder.layer.%zu.%s.%s", loading->layer, part, which);
    return weights_find(loading->weights, name, rows, columns, ret_halves, err);
}

/* `at`: which of the equally large parts of `dense` it is. */
static int load_part(const struct loading *loading, const char *name, size_t at, size_t outputs,
                     struct dense *dense, struct err *err)
{
    const struct path *path = loading->encoder->path;
    const char *matrix = NULL, *bias = NULL;
    if (find_layered(loading, name, "weight", outputs, dense->inputs, &matrix, err) < 0 ||
        find_layered(loading, name, "bias", outputs, 0, &bias, err) < 0)
        return -1;
    size_t panels = outputs / PATH_PANEL;
    path->pack(matrix, outputs, dense->inputs,
               dense->panels + at * panels * path->panel_size(dense->inputs));
    path->widen(bias, outputs, dense->bias + at * outputs);
    return 0;
}

static void dense_init(const struct encoder *encoder, struct dense *dense, size_t inputs,
                       size_t outputs)
{
    *dense = (struct dense){
        .panels = aligned(outputs / PATH_PANEL * encoder->path->panel_size(inputs)),
        .bias = aligned(outputs * sizeof(float)),
        .inputs = inputs,
        .outputs = outputs,
    };
}

static void norm_set(const struct encoder *encoder, const char *scale, const char *shift,
                     struct norm *norm)
{
    encoder->path->widen(scale, HIDDEN, norm->scale);
    encoder->path->widen(shift, HIDDEN, norm->shift);
}

static int load_norm(const struct loading *loading, const char *name, struct norm *norm,
                     struct err *err)
{
    const char *scale = NULL, *shift = NULL;
    if (find_layered(loading, name, "weight", HIDDEN, 0, &scale, err) < 0 ||
        find_layered(loading, name, "bias", HIDDEN, 0, &shift, err) < 0)
        return -1;
    norm_set(loading->encoder, scale, shift, norm);
    return 0;
}

static int load_layer(const struct loading *loading, struct err *err)
{
    struct encoder *encoder = loading->encoder;
    struct layer *layer = &encoder->layers[loading->layer];
    dense_init(encoder, &layer->qkv, HIDDEN, PATH_QKV);
    dense_init(encoder, &layer->mix, HIDDEN, HIDDEN);
    dense_init(encoder, &layer->up, HIDDEN, INNER);
    dense_init(encoder, &layer->down, INNER, HIDDEN);
    if (load_part(loading, "attention.self.query", 0, HIDDEN, &layer->qkv, err) < 0 ||
        load_part(loading, "attention.self.key", 1, HIDDEN, &layer->qkv, err) < 0 ||
        load_part(loading, "attention.self.value", 2, HIDDEN, &layer->qkv, err) < 0 ||
        load_part(loading, "attention.output.dense", 0, HIDDEN, &layer->mix, err) < 0 ||
        load_part(loading, "intermediate.dense", 0, INNER, &layer->up, err) < 0 ||
        load_part(loading, "output.dense", 0, HIDDEN, &layer->down, err) < 0)
        return -1;
    if (load_norm(loading, "attention.output.LayerNorm", &layer->after_mix, err) < 0)
        return -1;
    return load_norm(loading, "output.LayerNorm", &layer->after_down, err);
}

static int load_words(const struct loading *loading, struct err *err)
{
    struct encoder *encoder = loading->encoder;
    const struct weights *weights = loading->weights;
    const char *scale = NULL, *shift = NULL;
    if (weights_find(weights, "embeddings.word_embeddings.weight", ENCODER_VOCAB, HIDDEN,
                     &encoder->words, err) < 0 ||
        weights_find(weights, "embeddings.position_embeddings.weight", POSITIONS, HIDDEN,
                     &encoder->positions, err) < 0 ||
        weights_find(weights, "embeddings.token_type_embeddings.weight", 2, HIDDEN, &encoder->types,
                     err) < 0 ||
        weights_find(weights, "embeddings.LayerNorm.weight", HIDDEN, 0, &scale, err) < 0 ||
        weights_find(weights, "embeddings.LayerNorm.bias", HIDDEN, 0, &shift, err) < 0)
        return -1;
    norm_set(encoder, scale, shift, &encoder->after_words);
    return 0;
}

int encoder_new(const struct weights *weights, const struct path *path, struct workers *workers,
                struct encoder **ret_encoder, struct err *err)
{
    struct encoder *encoder = mem_alloc(sizeof *encoder);
    struct loading loading = {.encoder = encoder, .weights = weights};
    encoder->path = path;
    encoder->workers = workers;
    int done = load_words(&loading, err);
    for (; loading.layer < LAYERS && done == 0; loading.layer++)
        done = load_layer(&loading, err);
    if (done < 0) {
        (void)encoder_free(encoder);
        return -1;
    }
    *ret_encoder = encoder;
    return 0;
}

static void dense_done(struct dense *dense)
{
    free(dense->panels);
    free(dense->bias);
}

struct encoder *encoder_free(struct encoder *encoder)
{
    if (encoder == NULL)
        return NULL;
    for (size_t i = 0; i < LAYERS; i++) {
        dense_done(&encoder->layers[i].qkv);
        dense_done(&encoder->layers[i].mix);
        dense_done(&encoder->layers[i].up);
        dense_done(&encoder->layers[i].down);
    }
    free(encoder);
    return NULL;
}

/* ---- a run ---- */

struct encoder_room {
    float *tokens;  /* rows of HIDDEN: the state of each token */
    float *qkv;     /* rows of PATH_QKV */
    float *mixed;   /* rows of HIDDEN: what attention gives */
    float *inner;   /* STEP_ROWS rows of INNER */
    float *scratch; /* PATH_SCRATCH for each worker */
};

struct encoder_room *encoder_room_new(const struct encoder *encoder)
{
    struct encoder_room *room = mem_alloc(sizeof *room);
    size_t row = ENCODER_TOKENS_MAX * sizeof(float);
    room->tokens = aligned(row * HIDDEN);
    room->qkv = aligned(row * PATH_QKV);
    room->mixed = aligned(row * HIDDEN);
    room->inner = aligned(STEP_ROWS * sizeof(float) * INNER);
    room->scratch = aligned((size_t)workers_count(encoder->workers) * PATH_SCRATCH * sizeof(float));
    return room;
}

struct encoder_room *encoder_room_free(struct encoder_room *room)
{
    if (room == NULL)
        return NULL;
    free(room->tokens);
    free(room->qkv);
    free(room->mixed);
    free(room->inner);
    free(room->scratch);
    free(room);
    return NULL;
}

struct run {
    const struct encoder *encoder;
    struct encoder_room *room;
    const struct encoder_batch *batch;
    size_t rows;
    const struct layer *layer;
};

static size_t begin_of(const struct encoder_batch *batch, size_t text)
{
    return text == 0 ? 0 : batch->ends[text - 1];
}

static const char *row_of(const char *halves, size_t row)
{
    return halves + row * HIDDEN * sizeof(uint16_t);
}

/* The sum of the vectors of word, position and segment (there is only one). */
static void look_up(const struct run *run)
{
    const struct encoder *encoder = run->encoder;
    float position[HIDDEN], type[HIDDEN];
    encoder->path->widen(encoder->types, HIDDEN, type);
    for (size_t text = 0; text < run->batch->texts; text++) {
        size_t begin = begin_of(run->batch, text);
        for (size_t at = begin; at < run->batch->ends[text]; at++) {
            float *row = run->room->tokens + at * HIDDEN;
            encoder->path->widen(row_of(encoder->words, run->batch->ids[at]), HIDDEN, row);
            encoder->path->widen(row_of(encoder->positions, at - begin), HIDDEN, position);
            for (size_t i = 0; i < HIDDEN; i++)
                row[i] += position[i] + type[i];
        }
    }
    encoder->path->normalize(run->room->tokens, run->rows, encoder->after_words.scale,
                             encoder->after_words.shift);
}

struct product {
    const struct path *path;
    const struct dense *dense;
    struct path_linear linear; /* of the first panel */
};

static void product_panel(void *ctx, size_t index, int worker UNUSED)
{
    const struct product *product = ctx;
    struct path_linear linear = product->linear;
    linear.panel =
        product->dense->panels + index * product->path->panel_size(product->dense->inputs);
    linear.bias += index * PATH_PANEL;
    linear.out += index * PATH_PANEL;
    product->path->linear(&linear);
}

static void multiply(const struct run *run, const struct dense *dense, const float *in, size_t rows,
                     float *out, enum path_finish finish)
{
    struct product product = {
        .path = run->encoder->path,
        .dense = dense,
        .linear = {.in = in,
                   .in_stride = dense->inputs,
                   .rows = rows,
                   .inputs = dense->inputs,
                   .bias = dense->bias,
                   .out = out,
                   .out_stride = dense->outputs,
                   .finish = finish},
    };
    workers_run(run->encoder->workers, product_panel, &product, dense->outputs / PATH_PANEL);
}

struct normalizing {
    const struct path *path;
    const struct norm *norm;
    float *rows;
    size_t count;
};

static void normalize_rows(void *ctx, size_t index, int worker UNUSED)
{
    const struct normalizing *job = ctx;
    size_t from = index * NORM_ROWS;
    job->path->normalize(job->rows + from * HIDDEN, MIN(job->count - from, (size_t)NORM_ROWS),
                         job->norm->scale, job->norm->shift);
}

static void normalize(const struct run *run, const struct norm *norm, float *rows, size_t count)
{
    struct normalizing job = {run->encoder->path, norm, rows, count};
    workers_run(run->encoder->workers, normalize_rows, &job, (count + NORM_ROWS - 1) / NORM_ROWS);
}

static void attend_head(void *ctx, size_t index, int worker)
{
    const struct run *run = ctx;
    size_t text = index / HEADS, begin = begin_of(run->batch, text);
    run->encoder->path->attend(run->room->qkv + begin * PATH_QKV, run->batch->ends[text] - begin,
                               index % HEADS * PATH_HEAD, run->room->mixed + begin * HIDDEN,
                               run->room->scratch + (size_t)worker * PATH_SCRATCH);
}

/* Everything of a layer behind attention looks at one token only: a step takes some rows through
 * all of it, while they are in the cache. */
static void finish_rows(const struct run *run, size_t from, size_t rows)
{
    const struct layer *layer = run->layer;
    float *tokens = run->room->tokens + from * HIDDEN, *inner = run->room->inner;
    multiply(run, &layer->mix, run->room->mixed + from * HIDDEN, rows, tokens, PATH_ADD);
    normalize(run, &layer->after_mix, tokens, rows);
    multiply(run, &layer->up, tokens, rows, inner, PATH_GELU);
    multiply(run, &layer->down, inner, rows, tokens, PATH_ADD);
    normalize(run, &layer->after_down, tokens, rows);
}

static void mean_of(const struct run *run, size_t text, float *out)
{
    size_t begin = begin_of(run->batch, text), end = run->batch->ends[text];
    double length = 0;
    for (size_t i = 0; i < HIDDEN; i++) {
        double sum = 0;
        for (size_t at = begin; at < end; at++)
            sum += (double)run->room->tokens[at * HIDDEN + i];
        out[i] = (float)(sum / (double)(end - begin));
        length += (double)out[i] * (double)out[i];
    }
    for (size_t i = 0; i < HIDDEN; i++)
        out[i] = (float)((double)out[i] / MAX(sqrt(length), 1e-12));
}

void encoder_run(const struct encoder *encoder, struct encoder_room *room,
                 const struct encoder_batch *batch, void (*pause)(void *ctx), void *ctx, float *out)
{
    struct run run = {.encoder = encoder, .room = room, .batch = batch};
    if (batch->texts == 0)
        return;
    run.rows = batch->ends[batch->texts - 1];
    look_up(&run);
    for (size_t i = 0; i < LAYERS; i++) {
        run.layer = &encoder->layers[i];
        for (size_t from = 0; from < run.rows; from += STEP_ROWS) {
            multiply(&run, &run.layer->qkv, room->tokens + from * HIDDEN,
                     MIN(run.rows - from, (size_t)STEP_ROWS), room->qkv + from * PATH_QKV,
                     PATH_STORE);
            if (pause != NULL)
                pause(ctx);
        }
        workers_run(encoder->workers, attend_head, &run, batch->texts * HEADS);
        for (size_t from = 0; from < run.rows; from += STEP_ROWS) {
            finish_rows(&run, from, MIN(run.rows - from, (size_t)STEP_ROWS));
            if (pause != NULL)
                pause(ctx);
        }
    }
    for (size_t i = 0; i < batch->texts; i++)
        mean_of(&run, i, out + i * EMBED_DIMS);
}
