#pragma once

/* A listening socket of our own beside or instead of the HTTP library's: for TLS, where the first
 * byte of a connection tells whether it speaks TLS or plain HTTP, and for further addresses.
 * Belongs to the loop's thread. */

#include "io/loop.h"

struct door;
struct err;
struct http;
struct tls;

enum { DOOR_WAITING_MAX = 256, DOOR_FIRST_BYTE_MS = 10000 };

/* PLAIN: HTTP. TLS: nothing but TLS. EITHER: the first byte decides. */
enum door_kind { DOOR_PLAIN, DOOR_TLS, DOOR_EITHER };

/* Takes `listen_fd` on success; borrows the rest. `tls` may be NULL for DOOR_PLAIN. */
int door_open(struct loop *loop, struct http *http, int listen_fd, enum door_kind kind,
              struct tls *tls, struct door **ret_door, struct err *err) MUST_USE;
/* Connections that are served already stay. */
struct door *door_free(struct door *door);
DEFINE_FREEP(door)
