/* 64-bit ARM, every processor of which has these instructions. */

#if defined(__aarch64__)

#include <arm_neon.h>

#include "search/embed/path_internal.h"

#define LANES 4
#define TILE_ROWS 5
#define PATH path_neon
#define PATH_NAME "neon"
#define load_weights(at) ((vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at))))
#define pack_weight(half) (half)
typedef uint16_t weight;

static bool is_supported(void)
{
    return true;
}

#include "search/embed/path_body.h"

#endif
