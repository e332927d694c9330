/* The programs of the host, seen through /proc, cannot be written. */

#include "probe.h"

#include <fcntl.h>
#include <stdlib.h>

static void attack(const char *path)
{
    must_fail(path, open(path, O_WRONLY), 0);
    must_fail(path, open(path, O_RDWR), 0);
    must_fail(path, open(path, O_WRONLY | O_TRUNC), 0);
    must_fail(path, truncate(path, 0), 0);
}

int main(void)
{
    char path[64];
    for (int i = 0; i < 100; i++) {
        attack("/proc/self/exe");
        attack("/proc/1/exe");
    }
    int fd = open("/proc/self/exe", O_RDONLY);
    must_work("read oneself", fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    attack(path);
    attack("/usr/bin/true");
    attack("/bin/sh");
    must_fail("unlink", unlink("/usr/bin/true"), 0);
    must_fail("rename", rename("/usr/bin/true", "/usr/bin/false2"), 0);
    must_work("the next program runs", system("true") == 0);
    return probe_end();
}
