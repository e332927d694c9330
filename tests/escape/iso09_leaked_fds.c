/* No descriptor of the host came along; none leads out. */

#include "probe.h"

#include <fcntl.h>

int main(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        must_fail("openat ..", openat(fd, "..", O_RDONLY), EBADF);
        must_fail("fcntl", fcntl(fd, F_GETFD), EBADF);
    }
    for (int fd = 0; fd < 3; fd++)
        must_fail("openat .. from a stream", openat(fd, "..", O_RDONLY), 0);
    for (int i = 0; i < 64; i++)
        (void)!chdir("..");
    char here[256] = "";
    must_work("getcwd is the root", getcwd(here, sizeof here) != NULL && strcmp(here, "/") == 0);
    must_fail("the host's root", access("/etc/shadow", F_OK), ENOENT);
    must_fail("the host's home", access("/root/.profile", F_OK), 0);
    must_work("open works", open("/dev/null", O_RDONLY) == 3);
    return probe_end();
}
