#pragma once

/* One command inside a jail, from its message to its process. Only for init. */

#include <sys/types.h>

#include "jail/wire/plan.h"

struct wire_in;

struct init_command {
    const char *argv[JAIL_ARGS_MAX + 1];
    const char *env[JAIL_ARGS_MAX + 1];
    const char *cwd;
    bool tty;
    uint16_t rows, cols;
    const int *fds; /* three, unless tty */
};

struct init_started {
    pid_t pid;
    int master_fd; /* of the terminal, or -1 */
    int64_t since_ns;
    int stage, code; /* when it failed */
};

/* The strings stay in the message. False when it makes no sense. */
bool init_command_read(struct init_command *command, struct wire_in *in, const int fds[3]);
bool init_command_start(const struct init_command *command, uint32_t id,
                        struct init_started *ret_started);

/* Which process is killed first when memory runs out: with `first` the processes that are forked
 * now, otherwise init's own score. Memory that no process maps (pipes, sockets, memory files) is
 * still charged to the jail, and then the kernel may choose init; whichever process is killed, init
 * survives to report it. */
void init_oom_score(bool first);
