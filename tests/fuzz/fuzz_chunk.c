/* Any text: chunks lie inside it, in order, none is empty, and none is longer than its limit. */

#include "fuzz.h"

#include "base/err.h"
#include "search/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct chunked chunked = {0};
    if (size == 0)
        return 0;
    struct str text = str_n((const char *)data + 1, size - 1);
    enum doc_format format = (enum doc_format)(data[0] % 3);
    if (chunk_document(text, format, STR("title"), &arena, &chunked, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        return 0;
    }
    size_t last = 0;
    for (size_t i = 0; i < chunked.count; i++) {
        const struct chunk *chunk = &chunked.chunks[i];
        assert(chunk->len > 0 && chunk->start + chunk->len <= text.len);
        assert(chunk->len <= CHUNK_BYTES_MAX && chunk->start >= last);
        assert(str_is_utf8(chunk->heading));
        assert(str_is_utf8(str_slice(text, chunk->start, chunk->start + chunk->len)));
        last = chunk->start;
    }
    return 0;
}
