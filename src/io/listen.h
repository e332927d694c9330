#pragma once

/* Where to listen: "127.0.0.1:7070", "[::1]:80", "localhost:0", "unix:/run/x.sock". */

#include <netinet/in.h>
#include <sys/un.h>

#include "base/str.h"

struct err;

enum { ADDR_TEXT_SIZE = 128 };

struct addr {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } sa;
    socklen_t len;
};

/* Literals and "localhost" only: a name that must be asked from a server is INVALID, because what
 * it names could change under us. */
int addr_parse(struct str text, struct addr *ret_addr, struct err *err) MUST_USE;
void addr_format(const struct addr *addr, char out[ADDR_TEXT_SIZE]);
/* Reachable only from this machine: 127.0.0.0/8, ::1 or a unix socket. */
bool addr_is_loopback(const struct addr *addr);
/* Where this machine itself reaches it: loopback for 0.0.0.0 and [::], else the same. */
struct addr addr_nearest(const struct addr *addr);
bool addr_is_unix(const struct addr *addr);
int addr_port(const struct addr *addr); /* 0 for a unix socket */

/* A non-blocking listening socket; `addr` then holds the port that port 0 stood for. BUSY when the
 * address is taken, with advice. A unix socket is made 0600; one left behind by a dead process is
 * replaced, one that answers is BUSY. */
int listen_open(struct addr *addr, int backlog, struct err *err) MUST_USE;
