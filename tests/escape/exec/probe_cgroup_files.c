/* ISO-10: find the switches of any cgroup tree and write to them; mount one where it is missing. */

#include "finding.h"

#include <ftw.h>
#include <sys/stat.h>

static int seen, written;

static bool is_switch(const char *name)
{
    static const char *const names[] = {
        "release_agent",
        "notify_on_release",
        "cgroup.procs",
        "tasks",
        "devices.allow",
        "cgroup.subtree_control",
        "cgroup.kill",
        "pids.max",
        "memory.max",
        "cpu.max",
        "memory.limit_in_bytes",
        "cpu.cfs_quota_us",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    if (type != FTW_F || !is_switch(path + ftw->base))
        return 0;
    seen++;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool wrote = fd >= 0 && write(fd, "1", 1) == 1;
    written += wrote;
    say("switch", "%s %s", path, wrote ? "written" : errno_name(errno));
    if (fd >= 0)
        (void)close(fd);
    return 0;
}

int main(void)
{
    static const char *const places[] = {"/sys", "/run",       "/mnt", "/dev",
                                         "/tmp", "/workspace", "/var"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        (void)nftw(places[i], visit, 16, FTW_PHYS);
    say("seen", "%d", seen);
    say("written", "%d", written);
    (void)mkdir("/tmp/cg", 0755);
    ATTEMPT("mount.cgroup", SYS_mount, P("none"), P("/tmp/cg"), P("cgroup"), 0, P("memory"));
    ATTEMPT("mount.cgroup_rdma", SYS_mount, P("none"), P("/tmp/cg"), P("cgroup"), 0, P("rdma"));
    ATTEMPT("mount.cgroup2", SYS_mount, P("none"), P("/tmp/cg"), P("cgroup2"), 0, 0);
    say_result("control.mkdir", access("/tmp/cg", W_OK));
    say("done", "1");
    return 0;
}
