#pragma once

/* The processes of one command, wherever they hide.
 *
 * A command's descendants can leave its session, its process group and, by a second fork, its
 * parent. What they cannot leave is the score by which the kernel picks whom to kill when memory
 * ends: it is inherited, and /proc is read-only in a jail. So init gives each command a score of
 * its own, which costs nothing, and this reads it. A group of its own for each command would cost
 * 60 us and, on a machine at rest, the 10 to 20 ms that the kernel takes to move a process between
 * groups.
 *
 * Numbers come round: what a command left running is taken for part of the one that starts
 * MARKS_COUNT commands later. */

#include <stdint.h>
#include <sys/types.h>

enum { MARKS_FIRST = 501, MARKS_COUNT = 400 };

static inline int mark_of(uint32_t command)
{
    return MARKS_FIRST + (int)(command % MARKS_COUNT);
}

/* Kills those of the pid namespace whose init is `init` that carry the mark; gives how many were
 * found. `proc_fd` is a /proc in which `init` counts. */
int marked_kill(int proc_fd, pid_t init, int mark);
