#pragma once

/* The warden's end of the init spawner (jail/inside/init_spawner.h). */

#include "jail/cgroup/cgroup.h"
#include "jail/inside/mounts.h"

struct err;

struct init_spawner_link {
    pid_t pid; /* 0: none */
    int socket;
};

/* Everything that one jail is made from; borrowed. */
struct init_spawner_question {
    const struct jail_plan *plan;
    const struct mount_set *mounts;
    const struct cgroup_entries *entries;
    int control_fd, net_fd;
    int group_fd; /* to clone into; -1: none */
    uint32_t outer_id;
    bool as_other; /* outer_id is not who the warden is */
};

/* From the template and the home network: jails begin where the init spawner does. */
int init_spawner_start(struct init_spawner_link *spawner, int program_fd, int alive_fd,
                       bool as_root, struct err *err) MUST_USE;
/* Returns when the request is sent; the answers arrive on the jail's control socket. */
int init_spawner_ask(struct init_spawner_link *spawner,
                     const struct init_spawner_question *question, struct err *err) MUST_USE;
/* The init spawner has finished what it was asked for when this returns. */
void init_spawner_stop(struct init_spawner_link *spawner);
