#pragma once

/* Words that the files of relayer.c share. All of it but begin and run is for the process that has
 * entered the jail. */

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef STATX_MNT_ID
#include <linux/stat.h> /* musl has none of it */
#endif

#include "base/err.h"
#include "jail/warden/relayer.h"

enum { RELAYER_DETACH = 2, RELAYER_PLACES_MAX = JAIL_MOUNTS_MAX + 16 };

/* A mount on the old root and where it goes. */
struct relayer_place {
    int from_fd, to_fd;
};

struct relayer_job {
    struct made *made;
    const struct mount_set *set;
    const struct jail_plan *plan;
    int base_fd;       /* lowest layer; -1: the plan's own */
    const bool *parts; /* of mounts_template_parts: which are mounts at all */
    int anchor_fd, old_fd, new_fd;
    uint64_t old_mount;
    struct relayer_place places[RELAYER_PLACES_MAX];
    size_t place_count;
    bool broken;
    bool read_only; /* the old root is */
    bool has_spare, has_new, keeps_spare;
    struct err err;

    /* Of the writable layers. */
    const struct jail_seal *seal;
    size_t moved;  /* processes besides init */
    uint32_t next; /* number of the one that takes the writes then */
    size_t placed; /* layers of the plan that are already mounted in the spare place */
    int memory_fd;
    int line_fd; /* where their descriptors go */
};

static inline int k_statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *st)
{
    return (int)syscall(SYS_statx, dir_fd, path, flags, mask, st);
}

/* --- relayer.c --- */

/* The plan's layers from the one numbered job->placed on, and all else that a job begins with. */
int relayer_begin(const struct builder *builder, struct relayer_job *job, struct mount_set *set,
                  struct err *err) MUST_USE;
/* Enters the jail and exchanges its root. */
int relayer_run_job(struct relayer_job *job, struct err *err) MUST_USE;
/* Dismantling the old overlay takes half of the time of the exchange. Held, it is dismantled later,
 * when no request waits. */
int relayer_hold_root(const struct builder *builder, const struct made *made);
/* A filesystem in memory at JAIL_ANCHOR_SPARE. */
int relayer_put_spare(struct relayer_job *job, struct err *err) MUST_USE;
int relayer_put_layer(int fd, const char *path, struct err *err) MUST_USE;

/* --- relayer_processes.c --- */

/* In the warden, before the job: BUSY if a process could not be moved. `root_fd` is init's root. */
int relayer_check_processes(struct relayer_job *job, int root_fd, struct err *err) MUST_USE;

/* --- relayer_memory.c --- */

int relayer_memory_check(struct relayer_job *job, struct err *err) MUST_USE;
/* Sets job->new_fd. */
int relayer_memory_build(struct relayer_job *job, struct err *err) MUST_USE;
/* Read-only from here on, but for overlays. */
void relayer_memory_close(const struct relayer_job *job);
