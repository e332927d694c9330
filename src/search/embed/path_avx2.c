/* Compiled with -mavx2 -mfma -mf16c; only called on processors that have all three. */

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "search/embed/path_internal.h"

#define LANES 8
#define TILE_ROWS 6
#define PATH path_avx2
#define PATH_NAME "avx2"
#define load_weights(at)                                                                           \
    ((vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(at))))
#define pack_weight(half) (half)
typedef uint16_t weight;

/* Not every compiler's __builtin_cpu_supports knows F16C; that the system saves the registers is
 * what it says of AVX2. */
static bool is_supported(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#include "search/embed/path_body.h"

#endif
