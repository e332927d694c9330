/* ISO-11: read what /proc hides, write what it protects. Files of other processes than this one and
 * init are left out; opening for writing is enough to know, except where a value is named. */

#include "finding.h"

#include <ftw.h>
#include <sys/stat.h>

static const char *const masked[] = {
    "acpi",        "asound",  "kcore",      "keys",        "key-users",     "kmsg",
    "timer_list",  "scsi",    "interrupts", "timer_stats", "latency_stats", "sched_debug",
    "kallsyms",    "modules", "config.gz",  "iomem",       "ioports",       "slabinfo",
    "vmallocinfo", "swaps",   "partitions", "diskstats",   "pagetypeinfo",  "locks",
};

static void read_masked(void)
{
    char path[128], name[128], bytes[4096];
    /* So that there is one to be told of. */
    struct flock lock = {.l_type = F_WRLCK};
    (void)fcntl(open("/tmp/held", O_RDWR | O_CREAT, 0600), F_SETLK, &lock);
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        (void)snprintf(path, sizeof path, "/proc/%s", masked[i]);
        (void)snprintf(name, sizeof name, "mask.%s", masked[i]);
        struct stat st;
        if (stat(path, &st) < 0) {
            say(name, "%s", errno_name(errno));
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            /* An empty directory has two links or, on some filesystems, one. */
            (void)snprintf(path, sizeof path, "/proc/%s/.", masked[i]);
            int count = 0;
            int fd = open(path, O_RDONLY | O_DIRECTORY);
            for (ssize_t n; fd >= 0 && (n = syscall(SYS_getdents64, fd, bytes, sizeof bytes)) > 0;)
                for (ssize_t at = 0; at < n; at += *(unsigned short *)(bytes + at + 16))
                    count += bytes[at + 19] != '.';
            say(name, "%s", count == 0 ? "empty" : "leak");
            continue;
        }
        ssize_t n = slurp(path, bytes, sizeof bytes);
        say(name, "%s", n < 0 ? errno_name(errno) : n == 0 ? "empty" : "leak");
    }
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    say("writable", "%s", path);
    (void)close(fd);
    return 0;
}

static void find_writable(void)
{
    static const char *const trees[] = {
        "/proc/sys",     "/proc/bus",  "/proc/fs", "/proc/irq", "/proc/tty",          "/proc/scsi",
        "/proc/sysvipc", "/proc/acpi", "/proc/1",  "/sys",      "/proc/dynamic_debug"};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        (void)nftw(trees[i], visit, 16, FTW_PHYS);
    static const char *const files[] = {"/proc/sysrq-trigger", "/proc/mtrr", "/proc/kcore",
                                        "/proc/kmsg", "/proc/timer_list"};
    struct FTW at = {0};
    struct stat st;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (stat(files[i], &st) == 0)
            (void)visit(files[i], &st, FTW_F, &at);
}

/* Writes back what stands there: a fence that is missing shows, and the host stays as it was. */
static void write_same(const char *name, const char *path)
{
    char text[256];
    ssize_t len = slurp(path, text, sizeof text);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    say_result(name, fd < 0 || len <= 0 ? -1 : write(fd, text, (size_t)len));
    if (fd >= 0)
        (void)close(fd);
}

static void write_value(const char *name, const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    say_result(name, fd < 0 ? -1 : write(fd, value, strlen(value)));
    if (fd >= 0)
        (void)close(fd);
}

int main(void)
{
    read_masked();
    find_writable();
    write_same("write.core_pattern", "/proc/sys/kernel/core_pattern");
    write_same("write.modprobe", "/proc/sys/kernel/modprobe");
    write_same("write.hostname", "/proc/sys/kernel/hostname");
    write_same("write.domainname", "/proc/sys/kernel/domainname");
    write_same("write.ns_last_pid", "/proc/sys/kernel/ns_last_pid");
    write_same("write.shmmax", "/proc/sys/kernel/shmmax");
    write_same("write.ip_forward", "/proc/sys/net/ipv4/ip_forward");
    write_same("write.overcommit", "/proc/sys/vm/overcommit_memory");
    write_value("write.sysrq", "/proc/sysrq-trigger", "?");
    write_same("write.uevent_helper", "/sys/kernel/uevent_helper");
    write_value("write.oom_lower", "/proc/self/oom_score_adj", "-1000");
    write_value("write.uid_map", "/proc/self/uid_map", "0 0 1");
    write_value("write.setgroups", "/proc/self/setgroups", "allow");
    write_value("write.init_mem", "/proc/1/mem", "x");
    write_value("write.init_oom", "/proc/1/oom_score_adj", "1000");
    write_value("write.attr", "/proc/self/attr/current", "unconfined");
    write_value("raise.oom", "/proc/self/oom_score_adj", "1000");
    char text[256];
    say("control.read_cpuinfo", "%s", slurp("/proc/cpuinfo", text, sizeof text) > 0 ? "ok" : "no");
    say("sys", "%s", access("/sys/kernel", F_OK) < 0 ? "absent" : "present");
    say("done", "1");
    return 0;
}
