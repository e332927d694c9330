/* For any processor; the weights are widened when they are packed. Also what the other paths are
 * chosen from. */

#include "search/embed/path_internal.h"

#define LANES 4
#define TILE_ROWS 2
#define PATH path_plain
#define PATH_NAME "plain"
#define load_weights(at) load(at)
#define pack_weight(half) path_widen(half)
typedef float weight;

static bool is_supported(void)
{
    return true;
}

#include "search/embed/path_body.h"

const struct path *const paths[] = {
#if defined(__x86_64__)
    &path_avx2,
#elif defined(__aarch64__)
    &path_neon,
#endif
    &path_plain,
    NULL,
};

const struct path *path_best(void)
{
    for (const struct path *const *at = paths; *at != NULL; at++)
        if ((*at)->is_supported())
            return *at;
    return &path_plain;
}

uint16_t path_half_at(const char *halves, size_t index)
{
    uint16_t half;
    memcpy(&half, halves + index * sizeof half, sizeof half);
    return half;
}

float path_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff, bits;
    float value;
    if (exponent == 0) { /* zero or subnormal */
        value = (float)fraction * 5.9604644775390625e-8f;
        return sign != 0 ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}
