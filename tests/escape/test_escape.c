/* Ways out that only a caller of the library can try: descriptors that a daemon leaks, roots
 * made by another program, what the host sees of a jail. The rest is tests/escape/exec, which asks
 * the program itself. */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/jail.h"

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

static struct verdict verdict;

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
                  ERR_BAD_CWD);
        CHECK_MSG(bad[i]);
    }
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

TEST(iso18_second_fence)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    if (warden_host(warden())->landlock == 0)
        SKIP("this kernel has no Landlock");
    struct jail_plan plan = plan_for_probes(warden());
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    run_in(jail, (const char *const[]){"iso18_second_fence", NULL}, &verdict);
    if (verdict.exit.code != 0)
        print_error("%s\n", verdict.text);
    CHECK_INT(verdict.exit.code, 0);
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
