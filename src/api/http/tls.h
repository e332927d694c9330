#pragma once

/* TLS in front of the HTTP server (OpenSSL, included only in tls.c).
 *
 * A connection is decrypted here and goes on, as plain bytes, through a socket pair to the server.
 * The HTTP library has TLS of its own, but what it reads then comes from GnuTLS and not from the
 * socket: the judge of api/http/strict.h, the clock of api/http/conn.c, lingering and upgrades
 * would each need a second way. This costs a copy and leaves one way. Belongs to the loop's thread.
 */

#include "io/loop.h"

struct err;
struct tls;

enum { TLS_HANDSHAKE_MS = 10000 };

/* PEM files: the chain, the server's own certificate first, and its key. NOT_FOUND, FORBIDDEN (a
 * key that others may read), INVALID (not a key, or of another certificate). */
int tls_open(const char *cert_file, const char *key_file, struct tls **ret_tls,
             struct err *err) MUST_USE;
/* After every connection has ended, or all of them end now. */
struct tls *tls_free(struct tls *tls);
DEFINE_FREEP(tls)

/* Begins to speak TLS on `fd`, which is taken, and gives the end with the plain bytes. Either side
 * ends when the other does. */
int tls_accept(struct tls *tls, struct loop *loop, int fd, int *ret_plain_fd,
               struct err *err) MUST_USE;
