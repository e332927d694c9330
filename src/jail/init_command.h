#pragma once

/* One command inside a jail, from its message to its process. For init alone. */

#include <sys/types.h>

#include "jail/plan.h"

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

/* Who is killed first when memory ends: with `first` what is forked now, else init's own place.
 * Memory that no process maps (pipes, sockets, memory files) is charged to the jail all the same,
 * and then the kernel may well pick init; whoever is killed, init lives to report it. */
void init_oom_score(bool first);
