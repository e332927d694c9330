/* No control file of any group is in reach. */

#include "probe.h"

#include <ftw.h>
#include <stdlib.h>

static int found;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
    static const char *const names[] = {
        "release_agent",          "notify_on_release", "cgroup.procs",
        "devices.allow",          "memory.max",        "memory.limit_in_bytes",
        "cgroup.subtree_control", "cgroup.kill",       "pids.max"};
    (void)st, (void)type;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(path + at->base, names[i]) == 0)
            probe_say(path, "there");
    found++;
    return 0;
}

int main(void)
{
    must_fail("/sys/fs/cgroup", access("/sys/fs/cgroup", F_OK), ENOENT);
    must_fail("/sys", access("/sys", F_OK), ENOENT);
    nftw("/", look, 32, FTW_PHYS | FTW_MOUNT);
    nftw("/dev", look, 32, FTW_PHYS);
    nftw("/tmp", look, 32, FTW_PHYS);
    must_work("the walk saw files", found > 20);
    must_fail("mount cgroup", syscall(SYS_mount, "x", "/tmp", "cgroup", 0, "memory"), EPERM);
    must_fail("mount cgroup2", syscall(SYS_mount, "x", "/tmp", "cgroup2", 0, NULL), EPERM);
    return probe_end();
}
