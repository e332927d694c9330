#pragma once

/* Long operations of a jail's init: each has its own process that answers through init. Only for
 * init.
 *
 * Such a process holds one socket, to init, and what came with the question; not init's line to the
 * owner. Init passes its packets on unread, the last one once: whatever the process does, and
 * even if it is killed, the owner gets exactly one last answer. */

#include <sys/types.h>

#include "base/vec.h"
#include "jail/inside/file_serve.h"

enum { OPS_MAX = 128 }; /* BUSY past it */

struct init_op {
    uint32_t id;
    pid_t pid; /* -1: reaped already */
    int fd;
    bool is_connect; /* may send a descriptor */
};

struct ops {
    VEC(struct init_op) items;
};

/* What the new process does. With a `program` it is that one, which gets the packet. */
struct op_work {
    uint32_t id;
    const struct file_row *row; /* NULL: connect_fd is connecting */
    const struct jail_file *question;
    struct str packet;
    int program_fd, data_fd, connect_fd;
};

/* BUSY or LIMIT when it cannot be. Descriptors stay the caller's. */
int ops_start(struct ops *ops, const struct op_work *work, struct err *err) MUST_USE;
void ops_remove(struct ops *ops, size_t index);
/* Asks the process to exit and forgets it; false if no operation has this id. */
bool ops_cancel(struct ops *ops, uint32_t id);
void ops_reaped(struct ops *ops, pid_t pid);

/* Connects a fresh socket to the port on 127.0.0.1, else ::1; gives it, with `is_waiting` when the
 * other side has not accepted yet. */
int init_connect(uint16_t port, bool *ret_is_waiting, struct err *err) MUST_USE;
