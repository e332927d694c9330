#pragma once

/* Reads the ClientHello of a TLS client, without answering it, for the server name.
 *
 * A tunnel that is not intercepted still sends one name in clear text. It must be the name that the
 * policy has allowed. */

#include "egress/policy/host.h"

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
 * `*ret_hello` only with HELLO_DONE. */
enum hello_state hello_read(struct str bytes, struct hello *ret_hello);
