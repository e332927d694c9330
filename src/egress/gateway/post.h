#pragma once

/* Packets between the gateway, its spawner and its proxies: a type, the number of a sandbox, bytes,
 * descriptors. One seqpacket each; both ends are ours and one machine's. */

#include "base/buf.h"

struct err;

enum { POST_MAX = 160 << 10, POST_FDS_MAX = 8 };

struct post {
    uint32_t type, number;
    struct str bytes; /* stays in the space it was received into */
    int fds[POST_FDS_MAX];
    size_t fd_count; /* descriptors are CLOEXEC and the receiver's */
};

/* A non-blocking pair. */
int post_pair(int ret_fds[2], struct err *err) MUST_USE;
/* Descriptors stay the caller's. LIMIT when the other end does not read. */
int post_send(int fd, const struct post *post, struct err *err) MUST_USE;
/* 1 for a packet, 0 when none has arrived; -1 when the other end is closed (GONE) or sends an
 * invalid packet. `space` has POST_MAX bytes. */
int post_receive(int fd, char *space, struct post *ret_post, struct err *err) MUST_USE;
void post_close_fds(struct post *post);
