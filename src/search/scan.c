#include "search/scan.h"

#include <math.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

void vector_round(const float *vector, size_t dim, int8_t *out, float *ret_scale)
{
    float most = 0;
    for (size_t i = 0; i < dim; i++)
        most = fmaxf(most, fabsf(vector[i]));
    float scale = most > 0 ? most / 127 : 1;
    for (size_t i = 0; i < dim; i++)
        out[i] = (int8_t)lrintf(vector[i] / scale);
    *ret_scale = scale;
}

int32_t vector_dot_plain(const int8_t *a, const int8_t *b, size_t dim)
{
    int32_t sum = 0;
    for (size_t i = 0; i < dim; i++)
        sum += a[i] * b[i];
    return sum;
}

#ifdef __x86_64__
/* Products of bytes are added in pairs to 16 bits, then to 32: exact, as 2 * 127 * 127 fits. One
 * factor must not be negative, so its sign goes to the other. */
__attribute__((target("avx2"))) static int32_t dot_avx2(const int8_t *a, const int8_t *b,
                                                        size_t dim)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= dim; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(a + i));
        __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(b + i));
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(y, x));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtsi128_si32(half) + vector_dot_plain(a + i, b + i, dim - i);
}

int32_t vector_dot(const int8_t *a, const int8_t *b, size_t dim)
{
    return __builtin_cpu_supports("avx2") ? dot_avx2(a, b, dim) : vector_dot_plain(a, b, dim);
}
#else
int32_t vector_dot(const int8_t *a, const int8_t *b, size_t dim)
{
    return vector_dot_plain(a, b, dim);
}
#endif
