/* ISO-12: make device nodes, list and open those that are there, look for those that must not be.
 * Further arguments are nodes brought in from outside: probe_devices [NODE...]. */

#include "finding.h"

#include <ftw.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw, (void)type;
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        say("node", "%s %c %u:%u %s", path, S_ISCHR(st->st_mode) ? 'c' : 'b', major(st->st_rdev),
            minor(st->st_rdev), fd < 0 ? errno_name(errno) : "ok");
        if (fd >= 0)
            (void)close(fd);
    } else if (S_ISREG(st->st_mode))
        say("file", "%s", path);
    return 0;
}

static void try_node(const char *name, mode_t type, unsigned major_number, unsigned minor_number)
{
    char path[64], full[64];
    static const char *const places[] = {"/tmp", "/dev", "/dev/shm", "/workspace"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(path, sizeof path, "%s/node-%s", places[i], name);
        (void)snprintf(full, sizeof full, "mknod.%s.%s", places[i], name);
        say_result(full, mknod(path, type | 0666, makedev(major_number, minor_number)));
        (void)unlink(path);
    }
}

int main(int argc, char **argv)
{
    try_node("sda", S_IFBLK, 8, 0);
    try_node("mem", S_IFCHR, 1, 1);
    try_node("fuse", S_IFCHR, 10, 229);
    (void)nftw("/dev", visit, 16, FTW_PHYS);
    static const char *const absent[] = {
        "mem",  "kmsg", "fuse",  "kvm",  "net/tun", "loop0",  "sda", "vda",    "console",
        "port", "tty0", "vsock", "hpet", "input",   "mapper", "dri", "uinput", "loop-control"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/dev/%s", absent[i]);
        if (access(path, F_OK) == 0)
            say("present", "%s", absent[i]);
    }
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDWR | O_NONBLOCK | O_CLOEXEC);
        say("brought", "%s %s", argv[i], fd < 0 ? errno_name(errno) : "ok");
    }
    int fd = open("/dev/null", O_RDWR);
    say_result("control.null", write(fd, "x", 1));
    char byte = 1;
    fd = open("/dev/zero", O_RDONLY);
    say("control.zero", "%s", read(fd, &byte, 1) == 1 && byte == 0 ? "ok" : "failed");
    fd = open("/dev/urandom", O_RDONLY);
    say_result("control.urandom", read(fd, &byte, 1));
    fd = open("/dev/full", O_WRONLY);
    say("control.full", "%s", write(fd, "x", 1) < 0 ? errno_name(errno) : "ok");
    say("done", "1");
    return 0;
}
