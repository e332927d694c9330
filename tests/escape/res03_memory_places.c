/* Places that are memory have sizes, and what has none is counted. */

#include "probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/vfs.h>

static char block[1 << 20];

static long fill(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    long total = 0;
    ssize_t wrote;
    while (fd >= 0 && total < (200L << 20) && (wrote = write(fd, block, sizeof block)) > 0)
        total += wrote;
    int code = errno;
    if (fd >= 0)
        close(fd);
    unlink(path);
    errno = code;
    return total;
}

static int count_files(const char *dir)
{
    char path[64];
    int i = 0;
    for (; i < 100000; i++) {
        snprintf(path, sizeof path, "%s/f%d", dir, i);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    for (int j = 0; j < i; j++) {
        snprintf(path, sizeof path, "%s/f%d", dir, j);
        unlink(path);
    }
    return i;
}

static bool is_memory(const char *dir)
{
    struct statfs fs;
    return statfs(dir, &fs) == 0 && fs.f_type == 0x01021994; /* tmpfs */
}

int main(void)
{
    memset(block, 'x', sizeof block);
    must_work("/dev/shm ends at 64 MiB", fill("/dev/shm/x") == 64L << 20);
    if (is_memory("/tmp")) { /* else it lies on disk, with the sandbox's limit */
        must_work("/tmp ends at 64 MiB", fill("/tmp/x") == 64L << 20);
        int files = count_files("/tmp");
        must_work("/tmp has 16384 inodes", files > 16000 && files < 16384);
    }
    must_fail("mlock", mlock(block, sizeof block), 0);
    must_fail("mlockall", mlockall(MCL_CURRENT), 0);
    must_fail("message queue", syscall(SYS_msgget, 0, 0600 | 01000), EPERM);
    int pipes[2];
    must_work("pipe", pipe(pipes) == 0);
    must_fail("a huge pipe", fcntl(pipes[1], F_SETPIPE_SZ, 64 << 20), 0);
    must_work("a little", fill("/workspace/none") > 0);
    return probe_end();
}
