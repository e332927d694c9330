#pragma once

/* A file from the web onto the disk, for a command that waits for it (libcurl).
 *
 * The part that the file already has is not requested again, so an interrupted download continues
 * where it stopped; a server that does not support that sends all of it. Proxies are those of the
 * environment and redirects are followed: the caller checks the content by its digest and trusts no
 * server. */

#include "base/str.h"

struct err;

struct download {
    const char *url; /* http or https */
    int fd;          /* of the file, readable and writable */
    uint64_t limit;  /* bytes of the whole: TOO_LARGE */
    /* A file of authorities to trust besides the host's own (PEM); NULL: none. */
    const char *extra_ca;
    /* Called now and then with the bytes received and the total, 0 while unknown. May be NULL. */
    void (*progress)(void *ctx, uint64_t have, uint64_t total);
    void *ctx;
};

/* A passing failure is tried again. NOT_FOUND, TOO_LARGE, or UNAVAILABLE with the server's host and
 * what it said; what has come by then stays in the file. */
int download_run(const struct download *download, struct err *err) MUST_USE;
