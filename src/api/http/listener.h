#pragma once

/* A listening socket of our own beside or instead of the HTTP library's: for TLS, where the first
 * byte of a connection tells whether it speaks TLS or plain HTTP, and for further addresses.
 * Belongs to the loop's thread. */

#include "io/loop.h"

struct listener;
struct err;
struct http;
struct tls;

enum { LISTENER_WAITING_MAX = 256, LISTENER_FIRST_BYTE_MS = 10000 };

/* PLAIN: HTTP. TLS: nothing but TLS. EITHER: the first byte decides. */
enum listener_kind { LISTENER_PLAIN, LISTENER_TLS, LISTENER_EITHER };

/* Takes `listen_fd` on success; borrows the rest. `tls` may be NULL for LISTENER_PLAIN. */
int listener_open(struct loop *loop, struct http *http, int listen_fd, enum listener_kind kind,
                  struct tls *tls, struct listener **ret_listener, struct err *err) MUST_USE;
/* Connections that are served already stay. */
struct listener *listener_free(struct listener *listener);
DEFINE_FREEP(listener)
