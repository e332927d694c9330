#pragma once

/* Vectors of small integers: rounding, and the inner product with AVX2 where the processor has
 * it. */

#include "base/base.h"

/* `out[i] * *ret_scale` is about `vector[i]`. */
void vector_round(const float *vector, size_t dim, int8_t *out, float *ret_scale);
int32_t vector_dot(const int8_t *a, const int8_t *b, size_t dim);
/* The path without SIMD, for tests. */
int32_t vector_dot_plain(const int8_t *a, const int8_t *b, size_t dim);
