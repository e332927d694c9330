/* RES-02, RES-03: take memory in one of its forms until refused, killed or at MOST MiB:
 * probe_memory touch|mmaps|stack|memfd|pipes|sockets|shm|mlock|child MOST. */

#include "finding.h"

#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>

enum { MIB = 1 << 20 };

static void report(long i)
{
    if (i % 8 == 0)
        say("taken_mib", "%ld", i);
}

static bool touch(long i)
{
    report(i);
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    memset(p, (int)i | 1, MIB);
    return true;
}

static bool mmaps(long i)
{
    /* 256 mappings of a page: what the kernel keeps for each is charged as well. */
    report(i);
    for (int n = 0; n < 256; n++) {
        char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return false;
        *p = 1;
    }
    return true;
}

static int deeper(long left)
{
    volatile char frame[65536];
    memset((char *)frame, (int)left, sizeof frame);
    return left > 0 ? deeper(left - 1) + frame[left % 65536] : frame[0];
}

static bool stack(long i)
{
    return deeper(i * 16) != -12345;
}

static bool memfd(long i)
{
    static char bytes[MIB];
    static int fd = -1;
    if (fd < 0)
        fd = (int)syscall(SYS_memfd_create, "hog", 1);
    report(i);
    return write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
}

static bool pipes(long i)
{
    static char bytes[65536];
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) < 0)
        return false;
    (void)fcntl(ends[1], 1031 /* F_SETPIPE_SZ */, MIB);
    report(i);
    while (write(ends[1], bytes, sizeof bytes) > 0)
        ;
    return true;
}

static bool sockets(long i)
{
    static char bytes[65536];
    int ends[2], size = 64 * MIB;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
        return false;
    (void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    report(i);
    while (write(ends[0], bytes, sizeof bytes) > 0)
        ;
    return true;
}

static bool shm(long i)
{
    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    if (p == (char *)-1)
        return false;
    report(i);
    memset(p, (int)i | 1, MIB);
    return true;
}

static bool lock(long i)
{
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    report(i);
    return p != MAP_FAILED && mlock(p, MIB) == 0;
}

static const struct {
    const char *name;
    bool (*take)(long i);
} ways[] = {
    {"touch", touch},     {"mmaps", mmaps}, {"memfd", memfd}, {"pipes", pipes},
    {"sockets", sockets}, {"shm", shm},     {"mlock", lock},  {"stack", stack},
};

static void take(const char *way, long most)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (strcmp(ways[w].name, way) != 0)
            continue;
        for (long i = 0; i < most; i++)
            if (!ways[w].take(i)) {
                say("refused_at_mib", "%ld %s", i, errno_name(errno));
                return;
            }
        say("had_all_mib", "%ld", most);
    }
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "touch";
    long most = number(argc > 2 ? argv[2] : NULL, 192);
    if (strcmp(way, "child") == 0) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            take("touch", most);
            _exit(0);
        }
        (void)waitpid(child, &status, 0);
        say("child", "%s %d", WIFSIGNALED(status) ? "signal" : "exit",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    } else
        take(way, most);
    say("done", "1");
    return 0;
}
