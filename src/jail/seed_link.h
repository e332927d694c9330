#pragma once

/* The maker's end of the seed (jail/seed.h). */

#include "jail/cgroup.h"
#include "jail/mounts.h"

struct err;

struct seed_link {
    pid_t pid; /* 0: none */
    int socket;
};

/* Everything that one jail is made from; borrowed. */
struct seed_question {
    const struct jail_plan *plan;
    const struct mount_set *mounts;
    const struct cgroup_doors *doors;
    int control_fd, net_fd;
    int group_fd; /* to clone into; -1: none */
    uint32_t outer_id;
    bool as_other; /* outer_id is not who the maker is */
};

/* From the template and the home network: jails begin where the seed does. */
int seed_start(struct seed_link *seed, int program_fd, int alive_fd, bool as_root,
               struct err *err) MUST_USE;
/* Returns when the question is on its way; the answers come on the jail's control socket. */
int seed_ask(struct seed_link *seed, const struct seed_question *question,
             struct err *err) MUST_USE;
/* The seed has finished what it was asked for when this returns. */
void seed_stop(struct seed_link *seed);
