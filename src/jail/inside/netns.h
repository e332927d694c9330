#pragma once

/* Network namespaces that hold loopback and nothing else.
 *
 * They are made ahead and used again (net_stock.h). The warden enters one and
 * then clones: the namespace belongs to the warden's user namespace, so no capability that a jail
 * could ever hold counts in it. */

#include "base/buf.h"
#include "jail/wire/plan.h"

struct err;

/* Makes one with `lo` up and gives its descriptor; this process is back where it was. */
int netns_make(int home_fd, struct err *err) MUST_USE;
int netns_open_own(struct err *err) MUST_USE;
int netns_enter(int fd, struct err *err) MUST_USE;

/* A listening TCP socket on 127.0.0.1 of the namespace that this process is in. */
int netns_open_proxy(uint16_t port, struct err *err) MUST_USE;

/* Makes every address local to the namespace `fd`, so that each connection ends in a socket of the
 * namespace, and opens these sockets; this process is back in `home_fd` afterwards. Nothing leaves:
 * a connection either reaches one of the sockets or is refused by the kernel. If `proxy_fd` already
 * holds the proxy's socket, it is taken, also on failure; otherwise it is -1 or 0. */
int netns_gateway(int fd, int home_fd, uint16_t proxy_port, int *proxy_fd,
                  int ret_sockets[JAIL_SOCKETS], struct err *err) MUST_USE;
/* A listening TCP socket on every address of a namespace that netns_gateway has prepared. */
int netns_listen(int fd, int home_fd, uint16_t port, struct err *err) MUST_USE;
void netns_close_sockets(int sockets[JAIL_SOCKETS]);
