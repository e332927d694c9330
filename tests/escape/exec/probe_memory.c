/* RES-02, RES-03: take memory in one of its forms until refused, killed or at MOST MiB:
 * probe_memory touch|mmaps|stack|memfd|pipes|sockets|tcp|shm|mlock|semaphores|watches|child
 * MOST. */

#include "finding.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
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
    static char bytes[65536]; /* what a pipe holds, and it cannot be made to hold more */
    report(i);
    for (size_t sum = 0; sum < MIB; sum += sizeof bytes) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) < 0)
            return false;
        while (write(ends[1], bytes, sizeof bytes) > 0)
            ;
    }
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

/* Both ends of a connection to oneself, with as much in between as the kernel takes. */
static bool tcp(long i)
{
    static char bytes[65536];
    static long long total;
    static int server = -1;
    static struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int size = 8 * MIB;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0) {
        server = socket(AF_INET, SOCK_STREAM, 0);
        (void)setsockopt(server, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        if (bind(server, (struct sockaddr *)&at, len) < 0 || listen(server, 512) < 0 ||
            getsockname(server, (struct sockaddr *)&at, &len) < 0)
            return false;
    }
    int client = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (client < 0 || connect(client, (struct sockaddr *)&at, len) < 0)
        return false;
    for (int tries = 0; tries < 20; tries++) {
        ssize_t sent;
        while ((sent = send(client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
            total += sent;
        (void)usleep(1000);
    }
    say("tcp_mib", "%lld", total / MIB);
    report(i);
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

/* Sets of 16,384: each semaphore has 64 bytes. */
static bool semaphores(long i)
{
    report(i);
    return semget(IPC_PRIVATE, 16384, IPC_CREAT | 0600) >= 0;
}

/* 8,192 watches of epoll, with at least 128 bytes each: 512 descriptors in 16 instances. */
static bool watches(long i)
{
    static int fds[512], len;
    report(i);
    for (; len < 512; len++)
        if ((fds[len] = eventfd(0, 0)) < 0)
            return false;
    for (int n = 0; n < 16; n++) {
        int epoll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        for (int at = 0; at < len; at++)
            if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[at], &event) < 0)
                return false;
    }
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
    {"touch", touch},     {"mmaps", mmaps},
    {"memfd", memfd},     {"pipes", pipes},
    {"sockets", sockets}, {"shm", shm},
    {"mlock", lock},      {"stack", stack},
    {"tcp", tcp},         {"semaphores", semaphores},
    {"watches", watches},
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
