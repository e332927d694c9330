/* What a process in a jail is: ids, capabilities, limits, mounts, descriptors, environment. Threads
 * and children are as it is. Prints a text in which numbers that differ from run to run are
 * replaced. */

#include "probe.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void status_of(const char *path, char out[2048])
{
    char line[512];
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        static const char *const keys[] = {
            "Uid:",    "Gid:",    "Groups:", "CapInh:",     "CapPrm:",
            "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (strncmp(line, keys[i], strlen(keys[i])) == 0)
                strncat(out, line, 2047 - strlen(out));
    }
    if (file != NULL)
        fclose(file);
}

static char mine[2048];

static void *compare(void *unused)
{
    char path[64], other[2048];
    (void)unused;
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", syscall(SYS_gettid));
    status_of(path, other);
    must_work("a thread is like its process", strcmp(mine, other) == 0);
    return NULL;
}

static void threads_and_children(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        int status = 1;
        must_work("pthread_create", pthread_create(&thread, NULL, compare, NULL) == 0);
        pthread_join(thread, NULL);
        pid_t pid = fork();
        if (pid == 0) {
            probe_failures = 0;
            compare(NULL);
            _exit(probe_failures);
        }
        waitpid(pid, &status, 0);
        must_work("a child is like its parent", status == 0);
    }
}

static void print_limits(void)
{
    static const struct {
        int which;
        const char *name;
    } rows[] = {{RLIMIT_NOFILE, "NOFILE"},
                {RLIMIT_CORE, "CORE"},
                {RLIMIT_MEMLOCK, "MEMLOCK"},
                {RLIMIT_MSGQUEUE, "MSGQUEUE"},
                {RLIMIT_SIGPENDING, "SIGPENDING"},
                {RLIMIT_STACK, "STACK"},
                {RLIMIT_RTPRIO, "RTPRIO"},
                {RLIMIT_NICE, "NICE"},
                {RLIMIT_NPROC, "NPROC"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rlimit limit;
        getrlimit(rows[i].which, &limit);
        printf("limit %s %lld %lld\n", rows[i].name, (long long)limit.rlim_cur,
               (long long)limit.rlim_max);
    }
}

/* Place, flags and type of every mount of ours. What kind of filesystem the host keeps its programs
 * on, and which entries of /proc its kernel has to mask, is the host's business. */
static void print_mounts(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[1024], place[256], flags[256], type[64];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *dash = strstr(line, " - ");
        bool parsed = dash != NULL &&
                      sscanf(line, "%*s %*s %*s %*s %255s %255s", place, flags) == 2 &&
                      sscanf(dash + 3, "%63s", type) == 1;
        bool hosts = strcmp(place, "/usr") == 0 || strncmp(place, "/etc/", 5) == 0 ||
                     strcmp(place, "/mnt/probes") == 0;
        if (parsed && strncmp(place, "/proc/", 6) != 0)
            printf("mount %s %s %s\n", place, flags, hosts ? "host" : type);
    }
    if (file != NULL)
        fclose(file);
}

static void print_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], target[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len < 0)
            continue;
        target[len] = '\0';
        char *number = strchr(target, '[');
        if (number != NULL)
            *number = '\0';
        printf("fd %d %s\n", fd, target);
    }
}

extern char **environ;

int main(void)
{
    char line[256], name[256];
    status_of("/proc/self/status", mine);
    print_descriptors();
    fputs(mine, stdout);
    print_limits();
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%*[^:]:%*[^:]:%255s", name) == 1 ||
            sscanf(line, "%*[^:]::%255s", name) == 1)
            /* Its own group, or that of one command below it. */
            if (strcmp(name, "/") != 0 && (strlen(name) != 2 || name[1] < '0' || name[1] > '9'))
                probe_say("cgroup path", name);
    print_mounts();
    for (size_t i = 0; environ[i] != NULL; i++)
        printf("env %.*s\n", (int)strcspn(environ[i], "="), environ[i]);
    gethostname(name, sizeof name);
    printf("host %s\n", name);
    threads_and_children();
    return probe_end();
}
