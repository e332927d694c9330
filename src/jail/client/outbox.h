#pragma once

/* Packets on their way out of a process that must not wait: sent at once while the socket takes
 * them, kept when it is full. Their descriptors are kept as copies. */

#include "base/str.h"
#include "base/vec.h"

struct err;

enum { OUTBOX_BYTES_MAX = 4 << 20, OUTBOX_FDS_MAX = 256 };

struct outbox_item {
    char *bytes;
    size_t len;
    int fds[12];
    size_t fd_count;
};

struct outbox { /* all-zero is empty */
    VEC(struct outbox_item) items;
    size_t bytes, fds;
    bool is_held; /* nothing is sent meanwhile */
};

void outbox_done(struct outbox *outbox);
/* In the order of the calls. BUSY when too much is waiting already. */
int outbox_send(struct outbox *outbox, int fd, struct str packet, const int *fds, size_t fd_count,
                struct err *err) MUST_USE;
/* Sends what the socket takes now. */
int outbox_flush(struct outbox *outbox, int fd, struct err *err) MUST_USE;
static inline bool outbox_is_empty(const struct outbox *outbox)
{
    return outbox->items.len == 0;
}
