#include "jail_peers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/filter.h"

static const char *const plain_argv[] = {"/bin/true", NULL};
static const char *const unshare_argv[] = {
    "unshare", "--user", "--map-root-user", "--pid",        "--fork", "--mount",
    "--ipc",   "--net",  "--uts",           "--mount-proc", "true",   NULL};

/* The namespaces, the tree, no capabilities, a session of its own and the very same system call
 * filter. It has no control groups, no Landlock, no second uid and masks nothing. */
enum { FILTER_FD = 100 };
static const char *const bwrap_argv[] = {
    "bwrap",      "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr",
    "/usr",       "--symlink",     "usr/bin",           "/bin",          "--symlink", "usr/lib",
    "/lib",       "--symlink",     "usr/lib64",         "/lib64",        "--proc",    "/proc",
    "--dev",      "/dev",          "--tmpfs",           "/tmp",          "--tmpfs",   "/workspace",
    "--cap-drop", "ALL",           "--seccomp",         "100",           "/bin/true", NULL};

extern char **environ;

static int spawn(const char *const *argv)
{
    pid_t pid;
    int status = -1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        return -1;
    (void)waitpid(pid, &status, 0);
    return status;
}

static void must(int status, const char *what)
{
    if (status == 0)
        return;
    (void)fprintf(stderr, "bench: %s failed\n", what);
    exit(1);
}

static void run_peer(void *ctx)
{
    const char *const *argv = ctx;
    must(spawn(argv), argv[0]);
}

static int try_bwrap(void)
{
    (void)lseek(FILTER_FD, 0, SEEK_SET);
    return spawn(bwrap_argv);
}

static void run_bwrap(void *ctx)
{
    (void)ctx;
    must(try_bwrap(), "bwrap");
}

static bool prepare_bwrap(void)
{
    static struct sock_filter program[FILTER_INSNS_MAX];
    size_t size = filter_compile(program, FILTER_WHOLE) * sizeof *program;
    AUTO_CLOSE int fd = memfd_create("filter", MFD_CLOEXEC);
    return fd >= 0 && write(fd, program, size) == (ssize_t)size && dup2(fd, FILTER_FD) >= 0 &&
           try_bwrap() == 0;
}

/* crun refuses hosts with both kinds of control groups, so it runs where the unified tree is out of
 * sight, and without groups: started by a process of ours that answers one byte with another. */
static char bundle[] = "/tmp/sandglass-bench-XXXXXX";
static int crun_fds[2] = {-1, -1}; /* to ask, to hear */
static pid_t crun_pid;

static const char config[] =
    "{\"ociVersion\":\"1.0.2\",\"process\":{\"user\":{\"uid\":1000,\"gid\":1000},"
    "\"args\":[\"/bin/true\"],\"env\":[\"PATH=/usr/bin\"],\"cwd\":\"/\",\"capabilities\":{},"
    "\"noNewPrivileges\":true},\"root\":{\"path\":\"rootfs\",\"readonly\":true},"
    "\"hostname\":\"sandbox\",\"mounts\":["
    "{\"destination\":\"/usr\",\"type\":\"bind\",\"source\":\"/usr\","
    "\"options\":[\"rbind\",\"ro\",\"nosuid\",\"nodev\"]},"
    "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\","
    "\"options\":[\"nosuid\",\"nodev\",\"noexec\"]},"
    "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
    "\"options\":[\"nosuid\",\"mode=755\",\"size=64k\"]},"
    "{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
    "\"options\":[\"nosuid\",\"nodev\"]},"
    "{\"destination\":\"/workspace\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
    "\"options\":[\"nosuid\",\"nodev\"]}],"
    "\"linux\":{\"uidMappings\":[{\"containerID\":0,\"hostID\":200000,\"size\":65536}],"
    "\"gidMappings\":[{\"containerID\":0,\"hostID\":200000,\"size\":65536}],"
    "\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},"
    "{\"type\":\"uts\"},{\"type\":\"mount\"},{\"type\":\"user\"}],"
    "\"maskedPaths\":[\"/proc/kcore\",\"/proc/keys\",\"/proc/timer_list\"],"
    "\"readonlyPaths\":[\"/proc/sys\"]}}";

static bool make_bundle(void)
{
    static const char *const dirs[] = {"rootfs",     "rootfs/usr", "rootfs/proc",
                                       "rootfs/dev", "rootfs/tmp", "rootfs/workspace",
                                       "state"};
    static const char *const links[][2] = {
        {"usr/bin", "rootfs/bin"}, {"usr/lib", "rootfs/lib"}, {"usr/lib64", "rootfs/lib64"}};
    if (mkdtemp(bundle) == NULL)
        return false;
    AUTO_CLOSE int dir = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fchmod(dir, 0755) < 0)
        return false;
    for (size_t i = 0; i < countof(dirs); i++)
        if (mkdirat(dir, dirs[i], 0755) < 0)
            return false;
    for (size_t i = 0; i < countof(links); i++)
        if (symlinkat(links[i][0], dir, links[i][1]) < 0)
            return false;
    AUTO_CLOSE int file = openat(dir, "config.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return file >= 0 && write(file, config, sizeof config - 1) == (ssize_t)(sizeof config - 1);
}

static void NORETURN serve_crun(int asked, int heard)
{
    char state[64], byte;
    (void)snprintf(state, sizeof state, "%s/state", bundle);
    const char *argv[] = {"crun", "--root", state,  "--cgroup-manager=disabled",
                          "run",  "-b",     bundle, "sandglass-bench",
                          NULL};
    /* The sockets to the wardens are not ours to hold open. */
    enum { ASKED = 98, HEARD = 99 };
    if (dup2(asked, ASKED) < 0 || dup2(heard, HEARD) < 0 ||
        syscall(SYS_close_range, 3, ASKED - 1, 0) < 0 ||
        syscall(SYS_close_range, HEARD + 1, ~0u, 0) < 0)
        _exit(1);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(1);
    (void)umount2("/sys/fs/cgroup/unified", MNT_DETACH);
    while (read(ASKED, &byte, 1) == 1) {
        byte = spawn(argv) == 0 ? 1 : 0;
        if (write(HEARD, &byte, 1) != 1)
            break;
    }
    _exit(0);
}

static bool try_crun(void)
{
    char byte = 0;
    return write(crun_fds[0], "x", 1) == 1 && read(crun_fds[1], &byte, 1) == 1 && byte == 1;
}

static void run_crun(void *ctx)
{
    (void)ctx;
    must(try_crun() ? 0 : 1, "crun");
}

static bool prepare_crun(void)
{
    int ask[2], hear[2];
    if (access("/usr/bin/crun", X_OK) < 0 || !make_bundle() || pipe2(ask, O_CLOEXEC) < 0 ||
        pipe2(hear, O_CLOEXEC) < 0)
        return false;
    crun_pid = fork();
    if (crun_pid == 0) {
        (void)close(ask[1]);
        serve_crun(ask[0], hear[1]);
    }
    (void)close(ask[0]);
    (void)close(hear[1]);
    crun_fds[0] = ask[1];
    crun_fds[1] = hear[0];
    return crun_pid > 0 && try_crun();
}

static void missing(const char *name)
{
    (void)fprintf(stderr, "bench: %s does not work here: no row for it\n", name);
}

size_t jail_peers(struct bench_case cases[JAIL_PEERS_MAX])
{
    size_t count = 0;
    cases[count++] = (struct bench_case){
        "spawn_true", NULL, run_peer, (void *)(uintptr_t)plain_argv, 0, "no fence"};
    if (prepare_bwrap())
        cases[count++] = (struct bench_case){
            "bwrap_true", NULL, run_bwrap, NULL, 0, "same filter; no cgroups, no Landlock"};
    else
        missing("bwrap");
    if (spawn(unshare_argv) == 0)
        cases[count++] = (struct bench_case){
            "unshare_true", NULL, run_peer, (void *)(uintptr_t)unshare_argv, 0, "only namespaces"};
    else
        missing("unshare");
    if (prepare_crun())
        cases[count++] =
            (struct bench_case){"crun_true", NULL, run_crun, NULL, 0, "crun run; no cgroups"};
    else
        missing("crun");
    missing("runsc (in no Debian package)");
    return count;
}

void jail_peers_done(void)
{
    static const char *const argv[] = {"rm", "-rf", bundle, NULL};
    fd_close(&crun_fds[0]);
    fd_close(&crun_fds[1]);
    if (crun_pid > 0)
        (void)waitpid(crun_pid, NULL, 0);
    (void)spawn(argv);
}
