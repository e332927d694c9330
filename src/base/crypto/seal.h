#pragma once

/* Values on a disk that cannot be read with only the disk: AES-256-GCM under a
 * key that is a file of its own.
 *
 * What is sealed is tied to a text, its purpose: opened with another one it is refused. So a sealed
 * value that was moved to another owner, or another host, opens nowhere. */

#include "base/str.h"

struct buf;
struct err;
struct secret;

enum { SEAL_KEY_SIZE = 32 };

/* The key in this file, which is made when it is not there. FORBIDDEN when others than its owner
 * can read it, INVALID when it is no key. */
int seal_key_open(const char *path, struct secret **ret_key, struct err *err) MUST_USE;

/* Appends one word of printable ASCII. */
int seal_put(const struct secret *key, struct str purpose, struct str value, struct buf *out,
             struct err *err) MUST_USE;
/* Appends the value to `out`, which should be one that wipes. INVALID when it was sealed with
 * another key or for another purpose, or was changed. */
int seal_open(const struct secret *key, struct str purpose, struct str sealed, struct buf *out,
              struct err *err) MUST_USE;
