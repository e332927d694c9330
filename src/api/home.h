#pragma once

/* The data directory of one server: made if need be, held by one process at a time. */

#include <limits.h>

#include "base/crypto/hash.h"
#include "base/str.h"

struct err;

struct home {
    const char *path; /* borrowed */
    int dir_fd;
    int lock_fd; /* locked as long as it is open; -1 in an unopened home */
    char token_file[PATH_MAX];
    unsigned char token_hash[HASH_SIZE];
};

/* Creates the directory (0700), locks it, reads the token or makes a first one (0600), writes
 * `run/pid`. The token is in `token_file`, or where that is NULL in `token` below `path`. BUSY
 * names the process that holds the directory; one that is another user's, or that others can
 * write, is FORBIDDEN, and so is such a token. With `needs_token` a token must be there already
 * (FORBIDDEN otherwise, and none is made). */
int home_open(const char *path, const char *token_file, bool needs_token, struct home *ret_home,
              struct err *err) MUST_USE;
/* Writes the address of the server on this machine to `run/url`: commands without an address read
 * it there. */
int home_tell_url(const struct home *home, struct str url, struct err *err) MUST_USE;
/* Removes what is below `run` and lets go of the lock. */
void home_close(struct home *home);

/* The key under which URLs are signed: `signing_key` in the directory, made when it is not there.
 */
int home_signing_key(const struct home *home, unsigned char ret_key[HASH_SIZE],
                     struct err *err) MUST_USE;

/* In constant time: it does not show how much of the token was right. */
bool home_check_token(const struct home *home, struct str token);
