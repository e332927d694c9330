/* What /proc tells, and what can be written in it. */

#include "probe.h"

#include <fcntl.h>
#include <sys/stat.h>

static const char *const masked[] = {
    "kcore",       "keys",        "key-users",   "kmsg",        "latency_stats", "timer_list",
    "timer_stats", "sched_debug", "interrupts",  "kallsyms",    "modules",       "config.gz",
    "iomem",       "ioports",     "slabinfo",    "vmallocinfo", "pagetypeinfo",  "swaps",
    "partitions",  "diskstats",   "acpi/wakeup", "scsi/scsi",   "kpagecount",    "kpageflags"};

static const char *const unwritable[] = {"sys/kernel/core_pattern",
                                         "sys/kernel/hostname",
                                         "sys/vm/drop_caches",
                                         "sysrq-trigger",
                                         "sys/kernel/modprobe",
                                         "sys/net/ipv4/ip_forward",
                                         "self/oom_score_adj",
                                         "self/uid_map",
                                         "self/gid_map",
                                         "self/setgroups",
                                         "self/attr/current",
                                         "self/mem",
                                         "self/comm",
                                         "1/mem",
                                         "1/oom_score_adj",
                                         "irq/default_smp_affinity",
                                         "sys/fs/binfmt_misc/register",
                                         "mtrr"};

int main(void)
{
    char path[128], bytes[64];
    for (size_t i = 0; i < sizeof masked / sizeof masked[0]; i++) {
        snprintf(path, sizeof path, "/proc/%s", masked[i]);
        int fd = open(path, O_RDONLY | O_NONBLOCK);
        ssize_t got = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
        if (got > 0)
            probe_say(path, "can be read");
        if (fd >= 0)
            close(fd);
    }
    for (size_t i = 0; i < sizeof unwritable / sizeof unwritable[0]; i++) {
        snprintf(path, sizeof path, "/proc/%s", unwritable[i]);
        must_fail(path, open(path, O_WRONLY), 0);
    }
    must_work("own status", access("/proc/self/status", R_OK) == 0);
    must_work("meminfo", access("/proc/meminfo", R_OK) == 0);
    must_work("cpuinfo", access("/proc/cpuinfo", R_OK) == 0);
    return probe_end();
}
