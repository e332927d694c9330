/* The code of one path: included by path_*.c after these are defined.
 *
 *   LANES         floats of a vector
 *   TILE_ROWS     rows of a tile of products; with PATH_PANEL columns it fits the registers
 *   weight        type of a packed weight: uint16_t (half float) or float
 *   load_weights  a vector from LANES packed weights
 *   PATH          name of the struct path
 *
 * No #pragma once: it is part of several files, one time each. */

#include <math.h>

#include "search/embed/path.h"

enum { VECTORS = PATH_PANEL / LANES };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ivec __attribute__((vector_size(LANES * sizeof(float))));
typedef vec loose_vec __attribute__((aligned(sizeof(float)), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *at)
{
    return *(const loose_vec *)at;
}

INLINE void store(float *at, vec value)
{
    *(loose_vec *)at = value;
}

INLINE vec all(float value)
{
    return value - (vec){0};
}

INLINE vec choose(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

INLINE float sum_of(vec value)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += value[i];
    return sum;
}

/* e to the power of x, for x up to 88; 0 below -87. Error below 2 ulp (the polynomial of Cephes).
 */
INLINE vec exp_of(vec x)
{
    const vec round = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    ivec is_zero = x < all(-87.0f);
    x = choose(is_zero, all(-87.0f), x);
    vec n = x * all(1.44269504088896341f) + round - round;
    vec r = x - n * all(0.693359375f) + n * all(2.12194440e-4f);
    vec p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(5.0000001201e-1f);
    p = p * r * r + r + all(1.0f);
    ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
    return choose(is_zero, all(0.0f), p * (vec)power);
}

/* x * P(X <= x) of a normal distribution. erf by formula 7.1.26 of Abramowitz and Stegun, whose
 * error is below 1.5e-7. */
INLINE vec gelu_of(vec x)
{
    ivec is_negative = x < all(0.0f);
    vec z = choose(is_negative, -x, x) * all(0.70710678118654752f);
    vec t = all(1.0f) / (all(1.0f) + all(0.3275911f) * z);
    vec p = all(1.061405429f);
    p = p * t - all(1.453152027f);
    p = p * t + all(1.421413741f);
    p = p * t - all(0.284496736f);
    p = p * t + all(0.254829592f);
    vec tail = p * t * exp_of(-z * z); /* 1 - erf(z) */
    vec half = all(0.5f) * x;
    return choose(is_negative, half * tail, half * (all(2.0f) - tail));
}

/* ---- products ---- */

INLINE vec load_floats(const float *at)
{
    return load(at);
}

/* TILE(rows): sums of products of that many rows and one panel. A macro, since the accumulators
 * must be registers: their number is a constant of each instance. */
#define DEFINE_TILE(name, type, loader, rows)                                                      \
    static void name##_##rows(const float *in, size_t in_stride, const type *panel,                \
                              size_t panel_stride, size_t inputs, float *out, size_t out_stride)   \
    {                                                                                              \
        vec sums[rows][VECTORS] = {0};                                                             \
        for (size_t k = 0; k < inputs; k++) {                                                      \
            vec weights[VECTORS];                                                                  \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++) weights[v] =                 \
                loader(panel + k * panel_stride + v * LANES);                                      \
            _Pragma("GCC unroll 8") for (int r = 0; r < (rows); r++)                               \
            {                                                                                      \
                vec x = all(in[(size_t)r * in_stride + k]);                                        \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++) sums[r][v] +=            \
                    x * weights[v];                                                                \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int r = 0; r < (rows); r++)                                   \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                              \
                store(out + (size_t)r * out_stride + v * LANES, sums[r][v]);                       \
    }

#define DEFINE_TILES(name, type, loader)                                                           \
    DEFINE_TILE(name, type, loader, 1)                                                             \
    DEFINE_TILE(name, type, loader, 2)                                                             \
    DEFINE_TILE(name, type, loader, 3)                                                             \
    DEFINE_TILE(name, type, loader, 4)                                                             \
    DEFINE_TILE(name, type, loader, 5)                                                             \
    DEFINE_TILE(name, type, loader, 6)                                                             \
    typedef void name##_tile(const float *, size_t, const type *, size_t, size_t, float *,         \
                             size_t);                                                              \
    static name##_tile *const name[] = {NULL,     name##_1, name##_2, name##_3,                    \
                                        name##_4, name##_5, name##_6};

DEFINE_TILES(weighted, weight, load_weights)
DEFINE_TILES(plain, float, load_floats)

static_assert(TILE_ROWS <= PATH_ROWS_MAX, "tiles of these sizes are defined");

static void finish_tile(const struct path_linear *linear, const float *sums, size_t rows,
                        float *out)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; v < PATH_PANEL; v += LANES) {
            float *at = out + r * linear->out_stride + v;
            vec value = load(sums + r * PATH_PANEL + v) + load(linear->bias + v);
            if (linear->finish == PATH_GELU)
                value = gelu_of(value);
            else if (linear->finish == PATH_ADD)
                value += load(at);
            store(at, value);
        }
    }
}

static void linear(const struct path_linear *linear)
{
    float sums[TILE_ROWS * PATH_PANEL];
    for (size_t row = 0; row < linear->rows; row += TILE_ROWS) {
        size_t rows = MIN(linear->rows - row, (size_t)TILE_ROWS);
        weighted[rows](linear->in + row * linear->in_stride, linear->in_stride, linear->panel,
                       PATH_PANEL, linear->inputs, sums, PATH_PANEL);
        finish_tile(linear, sums, rows, linear->out + row * linear->out_stride);
    }
}

static size_t panel_size(size_t inputs)
{
    return inputs * PATH_PANEL * sizeof(weight);
}

static void pack(const char *halves, size_t outputs, size_t inputs, void *out)
{
    weight *at = out;
    for (size_t panel = 0; panel < outputs; panel += PATH_PANEL)
        for (size_t k = 0; k < inputs; k++)
            for (size_t i = 0; i < PATH_PANEL; i++)
                *at++ = pack_weight(path_half_at(halves, (panel + i) * inputs + k));
}

static void widen(const char *halves, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = path_widen(path_half_at(halves, i));
}

/* ---- attention ---- */

/* Keys by columns, in panels; behind the last token zeros. */
static void turn_keys(const float *keys, size_t tokens, float *out)
{
    for (size_t panel = 0; panel < tokens; panel += PATH_PANEL)
        for (size_t k = 0; k < PATH_HEAD; k++)
            for (size_t i = 0; i < PATH_PANEL; i++)
                *out++ = panel + i < tokens ? keys[(panel + i) * PATH_QKV + k] : 0;
}

/* Scores become weights with the sum 1. `width` is a multiple of PATH_PANEL. */
static void softmax(float *scores, size_t tokens, size_t width)
{
    const float scale = 0.17677669529663687f; /* 1 / sqrt(PATH_HEAD) */
    float most = scores[0];
    for (size_t i = 1; i < tokens; i++)
        most = MAX(most, scores[i]);
    for (size_t i = tokens; i < width; i++)
        scores[i] = -INFINITY;
    vec sum = {0};
    for (size_t i = 0; i < width; i += LANES) {
        vec value = exp_of((load(scores + i) - all(most)) * all(scale));
        store(scores + i, value);
        sum += value;
    }
    vec factor = all(1.0f / sum_of(sum));
    for (size_t i = 0; i < width; i += LANES)
        store(scores + i, load(scores + i) * factor);
}

static void attend(const float *qkv, size_t tokens, size_t head, float *out, float *scratch)
{
    const float *queries = qkv + head, *values = qkv + 2 * PATH_HIDDEN + head;
    float *keys = scratch, *scores = scratch + PATH_KEYS_MAX * PATH_HEAD;
    size_t width = (tokens + PATH_PANEL - 1) / PATH_PANEL * PATH_PANEL;
    turn_keys(qkv + PATH_HIDDEN + head, tokens, keys);
    for (size_t row = 0; row < tokens; row += TILE_ROWS) {
        size_t rows = MIN(tokens - row, (size_t)TILE_ROWS);
        for (size_t key = 0; key < tokens; key += PATH_PANEL)
            plain[rows](queries + row * PATH_QKV, PATH_QKV, keys + key * PATH_HEAD, PATH_PANEL,
                        PATH_HEAD, scores + key, width);
        for (size_t r = 0; r < rows; r++)
            softmax(scores + r * width, tokens, width);
        for (size_t column = 0; column < PATH_HEAD; column += PATH_PANEL)
            plain[rows](scores, width, values + column, PATH_QKV, tokens,
                        out + row * PATH_HIDDEN + head + column, PATH_HIDDEN);
    }
}

/* ---- layer normalization ---- */

static void normalize_row(float *row, const float *scale, const float *shift)
{
    vec sum = {0}, squares = {0};
    for (size_t i = 0; i < PATH_HIDDEN; i += LANES)
        sum += load(row + i);
    vec mean = all(sum_of(sum) / PATH_HIDDEN);
    for (size_t i = 0; i < PATH_HIDDEN; i += LANES) {
        vec difference = load(row + i) - mean;
        squares += difference * difference;
    }
    vec factor = all(1.0f / sqrtf(sum_of(squares) / PATH_HIDDEN + 1e-12f));
    for (size_t i = 0; i < PATH_HIDDEN; i += LANES)
        store(row + i, (load(row + i) - mean) * factor * load(scale + i) + load(shift + i));
}

static void normalize(float *rows, size_t count, const float *scale, const float *shift)
{
    for (size_t i = 0; i < count; i++)
        normalize_row(rows + i * PATH_HIDDEN, scale, shift);
}

const struct path PATH = {
    .name = PATH_NAME,
    .is_supported = is_supported,
    .panel_size = panel_size,
    .pack = pack,
    .widen = widen,
    .linear = linear,
    .attend = attend,
    .normalize = normalize,
};
