#pragma once

/* The host ids of a jail's processes.
 *
 * With privilege each jail gets a unique host id: it shares no file, no process and no limit with
 * another jail or user. A block of ids belongs to one warden at a time, held through a name in the
 * kernel that vanishes with its holder. Without privilege all jails use one id: the caller's. */

#include <sys/types.h>

#include "base/base.h"

struct err;

enum {
    IDS_FIRST = 0x60000000, /* above what user tools and container ranges hand out */
    IDS_BLOCKS = 4096,
    IDS_PER_BLOCK = 65536,
};

struct ids {
    bool privileged;
    int lock_fd;    /* holds the block; -1 when not privileged */
    uint32_t first; /* of the block */
    uint32_t next;
    uint8_t *used; /* one bit per id of the block */
};

/* Decides from the capabilities of this process which way it is; with privilege takes a block. */
int ids_init(struct ids *ids, struct err *err) MUST_USE;
void ids_done(struct ids *ids);

/* An id for one jail, as seen from the warden's own user namespace. */
int ids_take(struct ids *ids, uint32_t *ret_id, struct err *err) MUST_USE;
void ids_give_back(struct ids *ids, uint32_t id);

/* Maps the one id of the jail onto `outer`, for the process `pid`, which sits in a new user
 * namespace; forbids setgroups. */
int ids_write_maps(pid_t pid, uint32_t inner, uint32_t outer, struct err *err) MUST_USE;

/* The same for this process, which made its namespace while it was `outer`. */
int ids_map_self(uint32_t inner, uint32_t outer, struct err *err) MUST_USE;

/* Without privilege: makes the caller root of a user namespace of its own, in which it may build
 * jails. */
int ids_enter_own_namespace(struct err *err) MUST_USE;
