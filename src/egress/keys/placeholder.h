#pragma once

/* What a sandbox holds instead of a key: "sgs_" and 160 random bits, made for one sandbox and one
 * secret, worth nothing anywhere else.
 *
 * It is replaced by the value only in a request to a host that the secret is bound to, over https,
 * in a header that the secret names, and only where it is the whole token:
 *
 *     x-api-key: sgs_...
 *     Authorization: Bearer sgs_...                    (one word of scheme, any)
 *     Authorization: Basic base64(user:sgs_...)        (or sgs_... as the user: git, npm, Stripe)
 *
 * Everywhere else it stays what it is. */

#include "base/str.h"

struct buf;
struct host;
struct secrets;

enum { PLACEHOLDER_LEN = 36, PLACEHOLDER_SIZE = PLACEHOLDER_LEN + 1 };

void placeholder_new(char out[PLACEHOLDER_SIZE]);
/* Has the right length and characters; does not check to whom it belongs. */
bool placeholder_is_shaped(struct str text);

/* One header of a request to https://host:port. True: `out` got the value to send, which holds a
 * secret (let `out` be one that wipes). False: nothing was appended, the header goes as it is. */
bool placeholder_replace(const struct secrets *secrets, const struct host *host, uint16_t port,
                         struct str name, struct str value, struct buf *out) MUST_USE;

/* The same header, when the secret that it would carry there has no value: the secret's name, to
 * refuse the request with PLACEHOLDER_NO_VALUE; else NULL. */
const char *placeholder_without_value(const struct secrets *secrets, const struct host *host,
                                      uint16_t port, struct str name, struct str value);
#define PLACEHOLDER_NO_VALUE                                                                       \
    "%s has no value on this server; the operator must set the variable in the environment of "    \
    "'sandglass serve' and restart it"
