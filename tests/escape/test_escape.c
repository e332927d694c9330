/* Runs every probe in a jail of its own. The verdict is the probe's and, wherever the host can
 * see a difference, the host's too. */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
#include "jail/jail.h"

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

/* A jail that sees the probes at /mnt/probes; limits that the host lacks are off. */
static struct jail_plan plan_for_probes(struct warden_link *from)
{
    struct jail_plan plan = {.mount_count = 1};
    const char *probes = getenv("SG_PROBES");
    assert_non_null(probes);
    plan.mounts[0] = (struct jail_mount){.src = probes, .dst = "/mnt/probes"};
    if (warden_host(from)->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (warden_host(from)->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

struct verdict {
    struct jail_exit exit;
    char text[32768];
};

static void run_in(struct jail *jail, const char *const *words, struct verdict *verdict)
{
    struct err err = {0};
    char program[256];
    int out[2];
    uint32_t id;
    const char *argv[64] = {program};
    for (size_t i = 0; words[i] != NULL; i++)
        argv[i] = words[i];
    (void)snprintf(program, sizeof program, "/mnt/probes/%s", words[0]);
    argv[0] = program;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    const char *env[] = {"PATH=/usr/bin:/bin", NULL};
    struct jail_command command = {.argv = argv, .env = env};
    CHECK_OK(jail_start(jail, &command, (int[]){null, out[1], out[1]}, &id, NULL, &err));
    CHECK_INT(close(out[1]), 0);
    AUTO_BUF struct buf text = buf_with_limit(sizeof verdict->text - 1);
    CHECK_OK(buf_read_all(&text, reader, &err));
    (void)snprintf(verdict->text, sizeof verdict->text, "%s", buf_cstr(&text));
    CHECK_OK(jail_wait(jail, 60000, &verdict->exit, &err));
}

static void run(const char *const *words, struct verdict *verdict)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = plan_for_probes(warden());
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    run_in(jail, words, verdict);
}

static struct verdict verdict;

static void must_hold(const char *const *words)
{
    run(words, &verdict);
    if (verdict.exit.code != 0 || verdict.exit.signal != 0)
        print_error("%s: code %d signal %d\n%s\n", words[0], verdict.exit.code, verdict.exit.signal,
                    verdict.text);
    CHECK_INT(verdict.exit.signal, 0);
    CHECK_INT(verdict.exit.code, 0);
}
#define HOLDS(...) must_hold((const char *const[]){__VA_ARGS__, NULL})

/* The mount table of the host, which nothing in a jail may change. */
static void host_mounts(char out[HASH_HEX_SIZE])
{
    struct err err = {0};
    AUTO_CLOSE int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    CHECK_OK(hash_sha256_fd(fd, out, &err));
}

TEST(iso01_posture)
{
    AUTO_BUF struct buf golden = {0};
    struct err err = {0};
    char path[512];
    if (getenv("SG_GOLDEN") == NULL)
        SKIP("SG_GOLDEN is not set");
    HOLDS("iso01_posture");
    bool privileged = warden_host(warden())->privileged;
    (void)snprintf(path, sizeof path, "%s/%s", getenv("SG_GOLDEN"),
                   privileged ? "posture.txt" : "posture-rootless.txt");
    if (getenv("SG_GOLDEN_WRITE") != NULL)
        test_write(getenv("SG_GOLDEN"), privileged ? "posture.txt" : "posture-rootless.txt",
                   verdict.text);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&golden, fd, &err));
    CHECK_CSTR(verdict.text, buf_cstr(&golden));
}

TEST(iso01_namespaces_differ)
{
    static const char *const spaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = plan_for_probes(warden());
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    char fdinfo[64], line[128], path[64], inside[64], outside[64];
    int pid = -1;
    (void)snprintf(fdinfo, sizeof fdinfo, "/proc/self/fdinfo/%d", jail_pidfd(jail));
    FILE *file = fopen(fdinfo, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        (void)!sscanf(line, "Pid: %d", &pid);
    if (file != NULL)
        (void)fclose(file);
    CHECK(pid > 1);
    for (size_t i = 0; i < countof(spaces); i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, spaces[i]);
        ssize_t len = readlink(path, inside, sizeof inside - 1);
        if (len < 0)
            SKIP("namespaces of the jail cannot be read without privilege");
        inside[len] = '\0';
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
        len = readlink(path, outside, sizeof outside - 1);
        CHECK(len > 0);
        outside[len] = '\0';
        CHECK(strcmp(inside, outside) != 0);
    }
}

/* Whoever enters the namespace lands on its root, whatever root its processes were given: that must
 * be the jail's own tree, with the workshop gone. */
TEST(iso09_the_namespace_has_no_root_but_the_jails)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    if (!warden_host(warden())->privileged)
        SKIP("entering the namespace needs privilege");
    struct jail_plan plan = plan_for_probes(warden());
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    pid_t child = fork();
    if (child == 0) {
        if (setns(jail_pidfd(jail), CLONE_NEWNS) < 0)
            _exit(2);
        _exit(access("/workspace", F_OK) == 0 && access("/tree", F_OK) < 0 ? 0 : 1);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
}

TEST(iso02_setid)
{
    HOLDS("iso02_setid");
}

TEST(iso03_namespaces_and_mounts)
{
    char before[HASH_HEX_SIZE], after[HASH_HEX_SIZE];
    host_mounts(before);
    HOLDS("iso03_namespaces");
    host_mounts(after);
    CHECK_CSTR(after, before);
}

TEST(iso04_newer_calls)
{
    HOLDS("iso04_newer_calls");
}

TEST(iso05_foreign_abi)
{
    static const char *const ways[] = {"i386", "i386-mount", "x32", "x32-socket"};
    HOLDS("iso05_foreign_abi", "native");
#ifdef __x86_64__
    for (size_t i = 0; i < countof(ways); i++) {
        run((const char *const[]){"iso05_foreign_abi", ways[i], NULL}, &verdict);
        CHECK_INT(verdict.exit.signal, SIGSYS);
        CHECK_CSTR(verdict.text, "");
    }
#endif
}

TEST(iso06_kernel_doors)
{
    char before[128] = "", after[128] = "";
    CHECK_INT(gethostname(before, sizeof before), 0);
    HOLDS("iso06_kernel_doors");
    CHECK_INT(gethostname(after, sizeof after), 0);
    CHECK_CSTR(after, before);
}

TEST(iso07_sockets)
{
    HOLDS("iso07_sockets");
}

static void hash_file(const char *path, char out[HASH_HEX_SIZE])
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_OK(hash_sha256_fd(fd, out, &err));
}

TEST(iso08_programs_cannot_be_overwritten)
{
    static const char *const files[] = {"/proc/self/exe", "/bin/true", "/bin/sh"};
    char before[3][HASH_HEX_SIZE], after[3][HASH_HEX_SIZE];
    for (size_t i = 0; i < 3; i++)
        hash_file(files[i], before[i]);
    HOLDS("iso08_overwrite_exe");
    for (size_t i = 0; i < 3; i++) {
        hash_file(files[i], after[i]);
        CHECK_CSTR(after[i], before[i]);
    }
    HOLDS("iso05_foreign_abi", "native"); /* the next one works */
}

TEST(iso09_leaked_descriptors)
{
    struct err err = {0};
    int leaks[50];
    for (size_t i = 0; i < countof(leaks); i++)
        leaks[i] = open(i % 2 == 0 ? "/" : test_tmpdir(), O_RDONLY); /* without O_CLOEXEC */
    AUTO_WARDEN struct warden_link *own = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    CHECK_OK(warden_start(&own, &err));
    struct jail_plan plan = plan_for_probes(own);
    CHECK_OK(jail_make(own, &plan, &jail, &err));
    run_in(jail, (const char *const[]){"iso09_leaked_fds", NULL}, &verdict);
    if (verdict.exit.code != 0)
        print_error("%s\n", verdict.text);
    CHECK_INT(verdict.exit.code, 0);
    for (size_t i = 0; i < countof(leaks); i++)
        CHECK_INT(close(leaks[i]), 0);
    static const char *const bad[] = {"/proc/self/fd/3", "/proc/1/cwd", "/proc/self/root",
                                      "/proc/1/root/etc", "/proc/self/cwd"};
    const char *argv[] = {"true", NULL};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < countof(bad); i++) {
        uint32_t id;
        CHECK_ERR(jail_start(jail, &(struct jail_command){.argv = argv, .cwd = bad[i]},
                             (int[]){null, null, null}, &id, NULL, &err),
                  ERR_INVALID);
        CHECK_MSG("bad_cwd");
    }
}

TEST(iso10_cgroups)
{
    HOLDS("iso10_cgroups");
}

TEST(iso11_proc)
{
    HOLDS("iso11_proc");
}

TEST(iso12_devices)
{
    HOLDS("iso12_devices");
}

TEST(iso13_signals_stay_inside)
{
    char host[16];
    pid_t bystander = fork();
    if (bystander == 0)
        for (;;)
            (void)pause();
    (void)snprintf(host, sizeof host, "%d", (int)bystander);
    HOLDS("iso13_signals", host);
    CHECK_INT(waitpid(bystander, NULL, WNOHANG), 0); /* still there */
    CHECK_INT(kill(bystander, SIGKILL), 0);
    CHECK_INT(waitpid(bystander, NULL, 0), bystander);
}

TEST(iso14_terminal)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int tty = -1;
    struct jail_plan plan = plan_for_probes(warden());
    const char *argv[] = {"/mnt/probes/iso14_tty", NULL};
    struct jail_command command = {.argv = argv, .tty = true};
    uint32_t id;
    struct jail_exit exit;
    char text[1024] = {0};
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    CHECK_OK(jail_start(jail, &command, NULL, &id, &tty, &err));
    CHECK_OK(jail_wait(jail, 10000, &exit, &err));
    CHECK(read(tty, text, sizeof text - 1) > 0);
    CHECK_CSTR(text, "held\r\n"); /* what it said, and no keystroke of its making */
    CHECK_INT(exit.code, 0);
}

/* A root tree in which a place of the jail's own is something else. */
static void bad_tree(const char *place, const char *target, bool as_file)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    static int number;
    char tree[256], host[256], path[512];
    static const char *const parts[] = {"usr", "dev", "proc", "tmp", "etc", "home", "workspace"};
    (void)snprintf(tree, sizeof tree, "%s/tree%d", test_tmpdir(), number);
    (void)snprintf(host, sizeof host, "%s/host%d", test_tmpdir(), number++);
    CHECK_INT(mkdir(tree, 0755), 0);
    CHECK_INT(mkdir(host, 0755), 0);
    test_write(host, "sentinel", "mine");
    for (size_t i = 0; i < countof(parts); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", tree, parts[i]);
        if (strcmp(parts[i], place) != 0)
            CHECK_INT(mkdir(path, 0755), 0);
        else if (as_file)
            test_write(tree, place, "a file");
        else
            test_symlink(tree, target == NULL ? host : target, place);
    }
    struct jail_plan plan = plan_for_probes(warden());
    plan.mount_count = 0;
    plan.base = tree;
    if (jail_make(warden(), &plan, &jail, &err) == 0)
        print_error("'%s' as %s was taken\n", place, as_file ? "a file" : "a link");
    CHECK(jail == NULL);
    CHECK_MSG("bad_rootfs");
    DIR *dir = opendir(host);
    int entries = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        entries++;
    (void)closedir(dir);
    CHECK_INT(entries, 3);
}

TEST(iso15_trees_with_traps_are_refused)
{
    static const char *const places[] = {"proc", "dev", "tmp", "workspace", "home"};
    for (size_t i = 0; i < countof(places); i++) {
        bad_tree(places[i], NULL, false);
        bad_tree(places[i], "/proc/self/root", false);
        bad_tree(places[i], NULL, true);
    }
}

TEST(iso16_init_and_sockets)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    AUTO_CLOSE int abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int named = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[64], path[108];
    (void)snprintf(text, sizeof text, "@sandglass-test-%d", (int)getpid());
    memcpy(name.sun_path, text, strlen(text));
    name.sun_path[0] = '\0';
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
    CHECK_INT(bind(abstract, (struct sockaddr *)&name, len), 0);
    CHECK_INT(listen(abstract, 1), 0);
    (void)snprintf(path, sizeof path, "%.80s/socket", test_tmpdir());
    struct sockaddr_un file = {.sun_family = AF_UNIX};
    memcpy(file.sun_path, path, strlen(path));
    CHECK_INT(bind(named, (struct sockaddr *)&file, sizeof file), 0);
    CHECK_INT(listen(named, 1), 0);
    HOLDS("iso16_init_and_sockets", text, path, "/run/dbus/system_bus_socket");
}

TEST(iso18_second_fence)
{
    if (warden_host(warden())->landlock == 0)
        SKIP("this kernel has no Landlock");
    HOLDS("iso18_second_fence");
}

TEST(net01_no_way_out)
{
    AUTO_CLOSE int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    char port[16];
    unsigned short number;
    CHECK_INT(listen(server, 1), 0);
    CHECK_INT(getsockname(server, (struct sockaddr *)&addr, &len), 0);
    memcpy(&number, (const char *)&addr + 2, sizeof number);
    (void)snprintf(port, sizeof port, "%u", (unsigned)__builtin_bswap16(number));
    HOLDS("net01_no_way_out", port);
    CHECK_INT(accept(server, NULL, NULL), -1); /* nobody came */
}

TEST(res01_processes_end_at_their_limit)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = plan_for_probes(warden());
    plan.limits.pids = 40;
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    run_in(jail, (const char *const[]){"res01_processes", "40", NULL}, &verdict);
    if (verdict.exit.code != 0)
        print_error("%s\n", verdict.text);
    CHECK_INT(verdict.exit.code, 0);
}

TEST(res03_places_in_memory_have_sizes)
{
    HOLDS("res03_memory_places");
}

/* Every process of the machine whose first pid namespace level is this jail's init's child. */
static int processes_of(uid_t uid)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        struct stat st;
        char path[300];
        (void)snprintf(path, sizeof path, "/proc/%s", entry->d_name);
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && stat(path, &st) == 0 &&
            st.st_uid == uid)
            count++;
    }
    (void)closedir(dir);
    return count;
}

static uid_t uid_of_jail(struct jail *jail)
{
    char path[64], line[128];
    int pid = -1;
    unsigned uid = 0;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", jail_pidfd(jail));
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        (void)!sscanf(line, "Pid: %d", &pid);
    if (file != NULL)
        (void)fclose(file);
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        (void)!sscanf(line, "Uid: %u", &uid);
    if (file != NULL)
        (void)fclose(file);
    return uid;
}

TEST(res07_nobody_survives)
{
    struct err err = {0};
    if (!warden_host(warden())->privileged)
        SKIP("without privilege jails share the caller's id and cannot be counted by it");
    AUTO_JAIL struct jail *jail = NULL, *other = NULL;
    struct jail_plan plan = plan_for_probes(warden());
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    CHECK_OK(jail_make(warden(), &plan, &other, &err));
    uid_t uid = uid_of_jail(jail);
    CHECK(uid >= 0x60000000u);
    CHECK(uid_of_jail(other) != uid); /* each its own */
    run_in(jail, (const char *const[]){"res07_survivors", NULL}, &verdict);
    CHECK_INT(verdict.exit.code, 0);
    CHECK(processes_of(uid) > 8);
    CHECK_OK(jail_end(jail, NULL, &err));
    CHECK_INT(processes_of(uid), 0);
}

TEST(res09_descriptors)
{
    HOLDS("res09_descriptors");
}

TEST(res10_terminals)
{
    HOLDS("res10_terminals");
}
