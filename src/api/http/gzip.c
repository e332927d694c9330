#include "api/http/gzip.h"

#include <zlib.h>

#include "base/err.h"

enum { WINDOW_BITS = 15, GZIP_FRAME = 16, MEM_LEVEL = 8, LEVEL = 3 };

bool gzip_pack(struct str bytes, struct buf *out)
{
    struct err err;
    char *space;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes.ptr, .avail_in = (uInt)bytes.len};
    if (bytes.len > BUF_LIMIT_DEFAULT || buf_reserve(out, bytes.len, &space, &err) < 0 ||
        deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW_BITS + GZIP_FRAME, MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    z.next_out = (Bytef *)space;
    z.avail_out = (uInt)bytes.len;
    int end = deflate(&z, Z_FINISH);
    size_t packed = bytes.len - z.avail_out;
    (void)deflateEnd(&z);
    if (end != Z_STREAM_END)
        return false;
    buf_commit(out, packed);
    return true;
}
