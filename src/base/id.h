#pragma once

/* Ids that cannot be guessed: lower-case letters and digits, 5 bits each, from the kernel's
 * randomness.
 */

#include "base/str.h"

enum {
    ID_LEN = 26, /* 130 bits */
    ID_SIZE = ID_LEN + 1,
    TOKEN_LEN = 52, /* 260 bits */
    TOKEN_SIZE = TOKEN_LEN + 1,
};

void id_random(void *out, size_t size);
void id_new(char out[ID_SIZE]);
void id_new_token(char out[TOKEN_SIZE]);
/* Eight to 64 of [a-z0-9_-]: what may be looked up as an id at all. */
bool id_is_valid(struct str s);
