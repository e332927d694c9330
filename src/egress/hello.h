#pragma once

/* The first words of a TLS client, read without answering: whom does it want to speak to?
 *
 * A tunnel that nobody looks into still says one name in clear. It must be the name that was
 * judged. */

#include "egress/host.h"

enum { HELLO_MAX = 18 << 10 }; /* bytes of records; post-quantum keys make it long */

enum hello_state {
    HELLO_MORE, /* right so far */
    HELLO_DONE,
    HELLO_BAD, /* no TLS, or a hello that can be read in two ways */
};

struct hello {
    bool has_name;
    struct str name; /* as sent; points into `space` */
    char space[256];
};

/* `bytes` from the first one on; they may come in any number of pieces and records. Sets
 * `*ret_hello` with HELLO_DONE alone. */
enum hello_state hello_read(struct str bytes, struct hello *ret_hello);
