#pragma once

/* Servers and clients for the egress suite: blocking, one process per server, nothing clever. */

#include <sys/types.h>

#include "base/str.h"

struct authority;
struct secrets;

void net_begin(void);
void net_end(void);

/* A server on 127.0.0.1 in the namespace of the caller, in a child process. Answers HTTP with "ok",
 * "/big" and the line "\1 big" with a GiB, "\1 hold" with "held" and silence. */
pid_t net_serve(int *ret_port, bool is_tls);

int net_dial(int port); /* exits when it cannot */
void net_send(int fd, struct str bytes);
/* Reads until the text has come. */
void net_expect(int fd, const char *text);
/* Reads to the end; gives the bytes. */
int64_t net_drain(int fd);

enum net_root { NET_ROOT_OF_SERVERS, NET_ROOT_OF_SANDBOX };
/* A handshake and a request, then closes. */
void net_tls_ask(int fd, int port, enum net_root root);

/* What the gateway needs to open connections to 127.0.0.1:port. */
const struct secrets *net_secrets(int port);
struct authority *net_sandbox_authority(void);
const char *net_roots_file(void);
