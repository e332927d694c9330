#pragma once

/* A safetensors file: the length of a JSON header, the header with the name, type, shape and place
 * of each tensor, and the tensors. Nothing of it is believed before it was checked. */

#include "base/str.h"

struct err;
struct weights;

enum { WEIGHTS_FILE_MAX = 256 << 20, WEIGHTS_HEADER_MAX = 1 << 20 };

/* Borrows `bytes` until weights_free. */
int weights_open(struct str bytes, struct weights **ret_weights, struct err *err) MUST_USE;
struct weights *weights_free(struct weights *weights);
DEFINE_FREEP(weights)
#define AUTO_WEIGHTS AUTO(weights_freep)

/* The half floats of a tensor of this shape, at any address, also an odd one; `columns` 0: a list.
 * NOT_FOUND when there is no such tensor, INVALID when it is another one. */
int weights_find(const struct weights *weights, const char *name, size_t rows, size_t columns,
                 const char **ret_halves, struct err *err) MUST_USE;
