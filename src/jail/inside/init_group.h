#pragma once

/* The control groups of commands, one for each as long as there are enough. Only for init. The
 * files came from the warden; with them a thread can enter a group and nothing else, and only init
 * has them.
 *
 * A new process is in the groups of the thread that made it. So the thread of init that starts
 * commands is in the group of the next one ahead, and starting a command costs nothing: entering a
 * group takes a lock of the whole machine, for which one may have to wait. As long as commands end
 * soon they use the same group one after the other; when one keeps running the thread moves to
 * another group. Commands that start before it has moved share the group.
 *
 * That thread is not the first of init: memory of init is charged to where the first is, and only a
 * first thread can be chosen when processes of a group are killed for memory. */

#include "base/base.h"

enum { INIT_NO_GROUP = -1 };

/* Takes the descriptors, PART_FILES of them, unless there are enough already. Says whether there
 * are groups and they wait for their thread. */
bool init_group_add(int *fds);
/* The caller is that thread from now on. */
void init_group_begin(void);

/* A command is about to start. INIT_NO_GROUP if none is available. */
int init_group_take(void);
void init_group_leave(int group);
/* In how many milliseconds init_group_move is due; -1: not, as far as is known. */
int init_group_wait_ms(void);
void init_group_move(void);

/* How many processes of the group were killed for memory, ever. */
int64_t init_group_kills(int group);
/* Its highest use since it had no command last. */
int64_t init_group_peak(int group);
