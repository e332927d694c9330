/* A safetensors file. What is found in it lies inside of it. */

#include "fuzz.h"

#include "base/err.h"
#include "search/embed/weights.h"

static void look_for(const struct weights *weights, struct str file, const char *name, size_t rows,
                     size_t columns)
{
    struct err err = {0};
    const char *halves = NULL;
    size_t size = rows * (columns == 0 ? 1 : columns) * 2;
    if (weights_find(weights, name, rows, columns, &halves, &err) < 0) {
        assert(err.code == ERR_NOT_FOUND || err.code == ERR_INVALID);
        return;
    }
    assert(halves >= file.ptr && halves + size <= file.ptr + file.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str file = str_n((const char *)data, size);
    struct err err = {0};
    AUTO_WEIGHTS struct weights *weights = NULL;
    if (weights_open(file, &weights, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        return 0;
    }
    look_for(weights, file, "a", 2, 3);
    look_for(weights, file, "b", 4, 0);
    look_for(weights, file, "", 1, 1);
    return 0;
}
