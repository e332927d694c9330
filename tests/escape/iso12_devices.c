/* No device can be made, and /dev holds the harmless ones. */

#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int main(void)
{
    static const char *const known[] = {".",      "..",      "null",  "zero",   "full",
                                        "random", "urandom", "tty",   "ptmx",   "pts",
                                        "shm",    "fd",      "stdin", "stdout", "stderr"};
    must_fail("block 8:0", mknod("/tmp/a", S_IFBLK | 0600, makedev(8, 0)), EPERM);
    must_fail("char 1:1", mknod("/tmp/b", S_IFCHR | 0600, makedev(1, 1)), EPERM);
    must_fail("fuse", mknodat(-100, "/workspace/c", S_IFCHR | 0600, makedev(10, 229)), EPERM);
    must_work("a fifo", mkfifo("/tmp/fifo", 0600) == 0);
    DIR *dir = opendir("/dev");
    struct dirent *entry;
    int count = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        bool fine = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            fine |= strcmp(entry->d_name, known[i]) == 0;
        if (!fine)
            probe_say("/dev", entry->d_name);
        count++;
    }
    must_work("/dev is complete", count == sizeof known / sizeof known[0]);
    must_work("null", open("/dev/null", O_RDWR) >= 0);
    must_work("urandom", open("/dev/urandom", O_RDONLY) >= 0);
    must_fail("make in /dev", open("/dev/evil", O_CREAT | O_WRONLY, 0600), 0);
    must_fail("mem", open("/dev/mem", O_RDONLY), ENOENT);
    must_fail("kvm", open("/dev/kvm", O_RDWR), ENOENT);
    return probe_end();
}
