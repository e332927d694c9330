#pragma once

/* The processes of one command, wherever they hide.
 *
 * A command's descendants can leave its session, its process group and, by a second fork, its
 * parent. What they cannot leave is the score by which the kernel chooses a process to kill when
 * memory runs out: it is inherited, and /proc is read-only in a jail. So init gives each command a
 * score of its own, which costs nothing, and this reads it. Commands have memory groups, too
 * (jail/inside/init_group.h), but several may share one, and hosts with cgroup v2 have none.
 *
 * Numbers come round: what a command left running is taken for part of the one that starts
 * OOM_TAG_COUNT commands later. */

#include <stdint.h>
#include <sys/types.h>

enum { OOM_TAG_FIRST = 501, OOM_TAG_COUNT = 400 };

static inline int oom_tag_of(uint32_t command)
{
    return OOM_TAG_FIRST + (int)(command % OOM_TAG_COUNT);
}

/* Kills those of the pid namespace whose init is `init` that carry the mark; gives how many were
 * found. `proc_fd` is a /proc in which `init` counts. */
int oom_tag_kill(int proc_fd, pid_t init, int mark);
