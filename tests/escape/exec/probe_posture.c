/* ISO-01: what a process inside can see of its own fences: ids, capabilities, filters, namespaces,
 * limits, mounts, descriptors, environment; and whether threads and children have the same. */

#include "finding.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

enum { ALIKE = 4 };

static const char *const status_keys[] = {
    "Uid",    "Gid",    "Groups", "CapInh",     "CapPrm",
    "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
};

static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

static void status_of(const char *path, char *out, size_t size)
{
    static char text[16384]; /* threads take turns: one is joined before the next starts */
    out[0] = '\0';
    if (slurp(path, text, sizeof text) < 0)
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        for (size_t i = 0; i < sizeof status_keys / sizeof *status_keys; i++) {
            size_t len = strlen(status_keys[i]);
            if (strncmp(line, status_keys[i], len) == 0 && line[len] == ':') {
                (void)strncat(out, line, size - strlen(out) - 2);
                (void)strcat(out, "\n");
            }
        }
}

static void say_status(void)
{
    char text[4096];
    status_of("/proc/self/status", text, sizeof text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, ':');
        *value++ = '\0';
        for (char *c = value; *c; c++)
            if (*c == '\t')
                *c = ' ';
        while (*value == ' ')
            value++;
        say(line, "%s", value);
    }
    say("Securebits", "%#lx", (unsigned long)prctl(PR_GET_SECUREBITS));
    mode_t mask = umask(022);
    say("Umask", "%04o", (unsigned)mask);
    say("Sid", "%s", getsid(0) == 0 ? "outside" : "inside");
}

static void say_namespaces(void)
{
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        char path[64], name[64], target[64] = "";
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        (void)snprintf(name, sizeof name, "ns.%s", namespaces[i]);
        ssize_t n = readlink(path, target, sizeof target - 1);
        say(name, "%s", n < 0 ? errno_name(errno) : target);
    }
}

static void say_limits(void)
{
    static const struct {
        const char *name;
        int which;
    } limits[] = {
        {"limit.nofile", RLIMIT_NOFILE},         {"limit.core", RLIMIT_CORE},
        {"limit.memlock", RLIMIT_MEMLOCK},       {"limit.msgqueue", RLIMIT_MSGQUEUE},
        {"limit.sigpending", RLIMIT_SIGPENDING}, {"limit.stack", RLIMIT_STACK},
        {"limit.rtprio", RLIMIT_RTPRIO},         {"limit.nice", RLIMIT_NICE},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit = {0};
        (void)getrlimit(limits[i].which, &limit);
        say(limits[i].name, "%lld %lld", (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
}

/* One line of a /proc file becomes one finding; sixty-four KiB of them are plenty. */
static void say_lines(const char *name, const char *path)
{
    static char text[65536];
    if (slurp(path, text, sizeof text) < 0) {
        say(name, "%s", errno_name(errno));
        return;
    }
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        say(name, "%s", line);
}

static void say_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        say("fd", "%s", errno_name(errno));
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir))
            continue;
        char target[512] = "?";
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        say("fd", "%s %s", entry->d_name, target);
    }
    (void)closedir(dir);
}

static void *compare_thread(void *first)
{
    char mine[4096];
    status_of("/proc/thread-self/status", mine, sizeof mine);
    return mine[0] != '\0' && strcmp(mine, first) == 0 ? first : NULL;
}

static void say_alike(void)
{
    char first[4096];
    status_of("/proc/self/status", first, sizeof first);
    int threads = 0, children = 0;
    for (int i = 0; i < ALIKE; i++) {
        pthread_t thread;
        void *same = NULL;
        if (pthread_create(&thread, NULL, compare_thread, first) == 0 &&
            pthread_join(thread, &same) == 0 && same != NULL)
            threads++;
    }
    for (int i = 0; i < ALIKE; i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(compare_thread(first) != NULL ? 0 : 1);
        if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
            children++;
    }
    say("alike.threads", "%d of %d", threads, ALIKE);
    say("alike.children", "%d of %d", children, ALIKE);
}

int main(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv;
    say_descriptors();
    say_status();
    say_namespaces();
    say_limits();
    say_alike();
    say_lines("cgroup", "/proc/self/cgroup");
    say_lines("uid_map", "/proc/self/uid_map");
    say_lines("gid_map", "/proc/self/gid_map");
    say_lines("mount", "/proc/self/mountinfo");
    for (char **e = envp; *e; e++)
        say("env", "%.*s", (int)strcspn(*e, "="), *e);
    struct utsname uts = {0};
    (void)uname(&uts);
    say("hostname", "%s", uts.nodename);
    char cwd[512] = "";
    say("cwd", "%s", getcwd(cwd, sizeof cwd) != NULL ? cwd : errno_name(errno));
    say("done", "1");
    return 0;
}
