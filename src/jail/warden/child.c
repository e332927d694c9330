#include "jail/warden/child.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

int child_start(void (*run)(const void *ctx, int line), const void *ctx, pid_t *ret_pid,
                int *ret_line, struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int theirs = pair[1], ours = pair[0];
    pid_t pid = SYS(fork());
    if (pid < 0)
        return err_sys(err, errno, "fork");
    if (pid == 0) {
        run(ctx, theirs);
        _exit(127);
    }
    *ret_pid = pid;
    *ret_line = fd_take(&ours);
    return 0;
}

void child_stop(pid_t pid, int *line)
{
    fd_close(line);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
