/* RES-12: numbers, locks and switches that the whole machine shares and that no control group
 * counts. Each is asked for once: the refusal is what is looked for, not the exhaustion. The
 * controls beside them are what programs need of the same calls. */

#include "finding.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Of linux/filter.h, which this libc does not have. */
struct sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};
enum { RETURN = 6 };

static const int one = 1;

static void option(const char *name, int fd, int level, int option_name)
{
    say_result(name, setsockopt(fd, level, option_name, &one, sizeof one));
}

static void sockets(void)
{
    /* "Take all of it": a filter that changes nothing, were it attached. */
    struct sock_filter all = {.code = RETURN, .k = 0xffffffff};
    struct sock_fprog program = {.len = 1, .filter = &all};
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
    int v6 = socket(AF_INET6, SOCK_DGRAM, 0);
    say_result("bpf.attach", setsockopt(udp, 1, 26, &program, sizeof program));
    say_result("bpf.reuseport", setsockopt(udp, 1, 51, &program, sizeof program));
    option("bpf.attach_fd", udp, 1, 50);
    option("bpf.reuseport_fd", udp, 1, 52);
    option("bpf.lock", udp, 1, 44);
    option("branch.timestamp", udp, 1, 29);
    option("branch.timestamping", udp, 1, 37);
    option("branch.udp_gro", udp, 17, 104);
    option("branch.udp_encap", udp, 17, 100);
    option("branch.min_ttl", tcp, 0, 21);
    option("branch.tx_delay", tcp, 6, 37);
    say_result("module.congestion", setsockopt(tcp, 6, 13, "reno", 4));
    say_result("module.ulp", setsockopt(tcp, 6, 31, "tls", 3));
    option("module.iptables", tcp, 0, 64);
    option("table.flow_labels", v6, 41, 32);
    option("memory.zerocopy", tcp, 1, 60);
    option("memory.reserve", tcp, 1, 73);
    option("time.busy_poll", udp, 1, 46);
    option("control.reuseaddr", tcp, SOL_SOCKET, SO_REUSEADDR);
    option("control.nodelay", tcp, IPPROTO_TCP, TCP_NODELAY);
    option("control.v6only", v6, IPPROTO_IPV6, IPV6_V6ONLY);
    char request[64] = "lo";
    say_result("branch.siocgstamp", ioctl(udp, 0x8906, request));
    say_result("module.vlan", ioctl(udp, 0x8982, request));
    say_result("module.bridge", ioctl(udp, 0x8940, request));
    say_result("control.fionread", ioctl(udp, FIONREAD, request));
}

static void interpreter_memory(void)
{
    struct sock_filter all = {.code = RETURN, .k = 0x7fff0000 /* allow */};
    struct sock_fprog program = {.len = 1, .filter = &all};
    static long context;
    ATTEMPT("bpf.seccomp", SYS_seccomp, 1, 0, P(&program));
    ATTEMPT("bpf.seccomp_strict_probe", SYS_seccomp, 0, 1, 0);
    ATTEMPT("bpf.prctl_seccomp", SYS_prctl, PR_SET_SECCOMP, 2, P(&program), 0, 0);
    ATTEMPT("number.aio", SYS_io_setup, 1, P(&context));
    ATTEMPT("number.message_queue", SYS_msgget, 0, 0600);
    ATTEMPT("number.posix_queue", SYS_mq_open, P("q"), 0102, 0600, 0);
    ATTEMPT("number.key", SYS_add_key, P("user"), P("k"), P("v"), 1, -3);
    ATTEMPT("number.fanotify", SYS_fanotify_init, 0, 0);
    ATTEMPT("number.user_namespace", SYS_unshare, 0x10000000);
    ATTEMPT("scheduler.core", SYS_prctl, 62, 1, 0, 0, 0);
    ATTEMPT("memory.vma_name", SYS_prctl, 0x53564d41, 0, 0, 0, 0);
    ATTEMPT("memory.merge_process", SYS_prctl, 67, 1, 0, 0, 0);
    ATTEMPT("scheduler.clamp", SYS_sched_setattr, 0, P(&context), 0);
    ATTEMPT("interrupts.membarrier", SYS_membarrier, 4, 0, 0);
    ATTEMPT("control.membarrier", SYS_membarrier, 16, 0, 0);
    ATTEMPT("control.no_new_privs", SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void pages(void)
{
    char *area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say_result("memory.merge", madvise(area, 4096, MADV_MERGEABLE));
    say_result("control.madvise", madvise(area, 4096, MADV_DONTNEED));
    say("memory.huge_map", "%s",
        mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) ==
                MAP_FAILED
            ? errno_name(errno)
            : "ok");
    ATTEMPT("memory.huge_file", SYS_memfd_create, P("m"), 4);
    ATTEMPT("control.memory_file", SYS_memfd_create, P("m"), 1);
    ATTEMPT("memory.cachestat", 451, 0, 0, 0, 0);
    say_result("memory.huge_shm", shmget(IPC_PRIVATE, 2 << 20, IPC_CREAT | 04000 | 0600));
    say_result("control.shm", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
    say_result("control.semaphores", semget(IPC_PRIVATE, 4, IPC_CREAT | 0600));
}

/* How many pages mincore takes for resident, and of how many. */
static long resident(int fd, long *ret_count)
{
    static unsigned char pages_of[4096];
    long count = lseek(fd, 0, SEEK_END) / 4096, there = 0;
    *ret_count = count = count > 4096 ? 4096 : count;
    char *area = mmap(NULL, (size_t)count * 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (area == MAP_FAILED || mincore(area, (size_t)count * 4096, pages_of) < 0)
        return -1;
    for (long i = 0; i < count; i++)
        there += pages_of[i] & 1;
    return there;
}

/* The largest library of the host, whose pages are first taken out of the page cache as far as that
 * is possible: what mincore says of it then must not be what is there. */
static void page_cache(void)
{
    char path[512], best[512] = "";
    const char *dir_name = "/usr/bin";
    long size = 0, count = 0;
    DIR *dir = opendir(dir_name);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", dir_name, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > size) {
            size = (long)st.st_size;
            memcpy(best, path, sizeof best);
        }
    }
    int other = open(best, O_RDONLY), own = open("/tmp/own", O_RDWR | O_CREAT, 0600);
    (void)posix_fadvise(other, 0, 0, POSIX_FADV_DONTNEED);
    long there = resident(other, &count);
    say("cache.others", "%s", there == count && count > 0 ? "not told" : "told");
    (void)!ftruncate(own, 1 << 20);
    say("control.cache_own", "%s", resident(own, &count) == 0 ? "ok" : "not told");
}

static void files(void)
{
    int fd = open("/tmp/shared", O_RDWR | O_CREAT, 0600), pair[2] = {-1, -1};
    say_result("file.lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    say_result("file.notify", fcntl(open("/tmp", O_RDONLY), F_NOTIFY, 1));
    say("control.pipe", "%s", pipe(pair) < 0 ? errno_name(errno) : "ok");
    say_result("number.pipe_pages", fcntl(pair[1], F_SETPIPE_SZ, 1 << 16));
    struct flock lock = {.l_type = F_WRLCK};
    say_result("control.lock", fcntl(fd, F_SETLK, &lock));
    say_result("lock.of_description", fcntl(fd, 37 /* F_OFD_SETLK */, &lock));
    long pid = syscall(SYS_clone, 0x400 /* CLONE_FILES */ | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    say_result("lock.shared_descriptors", (int)pid);
    say_result("file.attributes", ioctl(fd, 0x40086602, &one));
    say_result("file.project", ioctl(fd, 0x401c5820, &one));
    /* It answers, and does nothing. */
    say_result("file.sync", syscall(SYS_sync));
    say_result("control.syncfs", syscall(SYS_syncfs, fd));
}

static void cores(void)
{
    struct rlimit limit = {0, 0}, now = {9, 9};
    say_result("core.set", setrlimit(RLIMIT_CORE, &limit));
    say_result("core.set_and_ask", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, &now));
    (void)getrlimit(RLIMIT_CORE, &now);
    say("core.limit", "%ld %ld", (long)now.rlim_cur, (long)now.rlim_max);
    limit = (struct rlimit){64, 64};
    say_result("control.limit", setrlimit(RLIMIT_NOFILE, &limit));
}

int main(void)
{
    sockets();
    interpreter_memory();
    pages();
    page_cache();
    files();
    cores();
    say("done", "1");
    return 0;
}
