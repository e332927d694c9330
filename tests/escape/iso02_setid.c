/* Programs with the set-user-ID bit, found and made, do not change who runs them. */

#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static int euid_of(const char *program)
{
    int out[2], status;
    char text[32] = "";
    if (pipe(out) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        execl(program, program, "-u", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    ssize_t got = read(out[0], text, sizeof text - 1);
    close(out[0]);
    waitpid(pid, &status, 0);
    return got > 0 ? (int)strtol(text, NULL, 10) : -1;
}

int main(void)
{
    if (system("cp /usr/bin/id /workspace/id && chmod 6755 /workspace/id") != 0)
        probe_say("copy", "cannot prepare");
    must_work("id runs", euid_of("/usr/bin/id") == 1000);
    must_work("a set-id copy is still us", euid_of("/workspace/id") == 1000);
    must_fail("file capability",
              setxattr("/workspace/id", "security.capability",
                       "\1\0\0\2\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0", 20, 0),
              EPERM);
    must_fail("setuid 0", setuid(0), 0);
    must_fail("setresuid 0", setresuid(0, 0, 0), 0);
    must_fail("setgid 0", setgid(0), 0);
    must_work("own user attribute or none",
              setxattr("/workspace/id", "user.a", "b", 1, 0) == 0 || errno == EOPNOTSUPP);
    return probe_end();
}
