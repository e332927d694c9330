#pragma once

/* The arithmetic of the encoder, once for each kind of processor. All paths are made of
 * path_body.h, which is compiled for each with its own vector type: AVX2 with FMA and F16C, NEON,
 * and plain C. */

#include "base/base.h"

enum {
    PATH_PANEL = 16,     /* outputs whose weights are stored together */
    PATH_HEAD = 32,      /* numbers of an attention head */
    PATH_KEYS_MAX = 256, /* tokens of a text */
    PATH_HIDDEN = 384,   /* numbers of a token */
    PATH_QKV = 3 * PATH_HIDDEN,
};

/* What happens to a sum of products and its bias. */
enum path_finish { PATH_STORE, PATH_GELU, PATH_ADD };

/* out[row][0..PANEL) = finish(in[row] * weights + bias); PATH_ADD adds to what `out` holds. */
struct path_linear {
    const float *in;
    size_t in_stride, rows, inputs;
    const void *panel;
    const float *bias;
    float *out;
    size_t out_stride;
    enum path_finish finish;
};

struct path {
    const char *name;
    bool (*is_supported)(void);
    /* Weights of `outputs` rows of `inputs` half floats each, at any address, become panels; a
     * multiple of PATH_PANEL outputs. A panel takes panel_size(inputs) bytes. */
    size_t (*panel_size)(size_t inputs);
    void (*pack)(const char *halves, size_t outputs, size_t inputs, void *out);
    void (*widen)(const char *halves, size_t count, float *out);
    void (*linear)(const struct path_linear *linear);
    /* Attention of one head over the tokens of one text. Rows of `qkv` are PATH_QKV wide, those of
     * `out` PATH_HIDDEN; `head` is the column of the head. `scratch` has path_scratch_size bytes.
     */
    void (*attend)(const float *qkv, size_t tokens, size_t head, float *out, float *scratch);
    /* Each row to mean 0 and variance 1, then times `scale` plus `shift`, in place. */
    void (*normalize)(float *rows, size_t count, const float *scale, const float *shift);
};

enum { PATH_ROWS_MAX = 6 };
/* Floats that `attend` needs: the keys by columns, and scores of a few rows. */
enum { PATH_SCRATCH = PATH_KEYS_MAX * PATH_HEAD + PATH_ROWS_MAX * PATH_KEYS_MAX };

/* From the fastest on; the last one works everywhere. Ends with NULL. */
extern const struct path *const paths[];
/* The first that this processor has. */
const struct path *path_best(void);

uint16_t path_half_at(const char *halves, size_t index);
float path_widen(uint16_t half);
