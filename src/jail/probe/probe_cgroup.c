/* Control groups: a probe group is made below our own (or at the top), given a limit, and a process
 * is put in, frozen, or killed by it. The group itself is removed by probe_cgroup_tidy in the
 * parent, which also takes back controllers that were switched on for it. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

enum { GROUP_PATH_MAX = PROBE_PATH_MAX + 64, TIDY_MS = 1000 };

static const struct {
    const char *name;
    const char *file, *value;   /* v1 */
    const char *file2, *value2; /* v2 */
} limits[] = {
    [PROBE_CTRL_MEMORY] = {"memory", "memory.limit_in_bytes", "67108864", "memory.max", "67108864"},
    [PROBE_CTRL_PIDS] = {"pids", "pids.max", "1", "pids.max", "1"},
    [PROBE_CTRL_CPU] = {"cpu", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000"},
};

struct group {
    char dir[GROUP_PATH_MAX];
    char where[PROBE_PATH_MAX];
};

static int probe_cgroup_put(const struct group *group, const char *file, const char *text)
{
    char path[GROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", group->dir, file);
    return probe_write(path, text);
}

static int probe_cgroup_get(const struct group *group, const char *file, char *out, size_t size)
{
    char path[GROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", group->dir, file);
    return probe_read(path, out, size);
}

static bool has_file(const struct group *group, const char *file)
{
    char path[GROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", group->dir, file);
    return access(path, F_OK) == 0;
}

/* v2: below a group that has processes and passes controllers on, no group takes processes. */
static bool takes_processes(const struct group *group)
{
    char type[32];
    return probe_cgroup_get(group, "cgroup.type", type, sizeof type) < 0 ||
           strcmp(type, "domain invalid") != 0;
}

/* Makes the group below `parent`, with `controller` switched on for it when that is asked for. */
static int make_below(const char *parent, const struct probe_env *env, const char *controller,
                      const char *file, struct group *ret)
{
    (void)snprintf(ret->where, sizeof ret->where, "%s", parent);
    (void)snprintf(ret->dir, sizeof ret->dir, "%s/%s", parent, env->group);
    if (SYS(mkdir(ret->dir, 0755)) < 0)
        return -1;
    if ((file == NULL || has_file(ret, file)) && takes_processes(ret))
        return 0;
    char path[GROUP_PATH_MAX], word[32];
    (void)snprintf(path, sizeof path, "%s/cgroup.subtree_control", parent);
    (void)snprintf(word, sizeof word, "+%s", controller);
    int sys = EBUSY;
    if (file != NULL && probe_write(path, word) < 0)
        sys = errno;
    else if (file != NULL && has_file(ret, file) && takes_processes(ret))
        return 0;
    (void)rmdir(ret->dir);
    errno = sys;
    return -1;
}

static int make_group(const struct probe_hierarchy *tree, const struct probe_env *env,
                      const char *controller, const char *file, struct group *ret,
                      struct probe_result *result)
{
    if (tree->version == 0)
        return probe_fail(result, 0, "no such controller is mounted");
    if (make_below(tree->own, env, controller, file, ret) == 0)
        return 0;
    int sys = errno;
    if (strcmp(tree->own, tree->top) != 0 && make_below(tree->top, env, controller, file, ret) == 0)
        return 0;
    return probe_fail(result, sys, "make a control group below '%s'", tree->own);
}

/* Starts a process that waits for a byte, then does `then`; gives its pid. */
static pid_t start_waiter(int (*then)(void), int *ret_go)
{
    int ends[2];
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0)
        return -1;
    pid_t pid = SYS(fork());
    if (pid == 0) {
        char byte;
        (void)close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 ? then() : 9);
    }
    int sys = errno;
    (void)close(ends[0]);
    if (pid < 0)
        (void)close(ends[1]);
    else
        *ret_go = ends[1];
    errno = sys;
    return pid;
}

static pid_t start_inside(const struct group *group, int (*then)(void), int *ret_go,
                          struct probe_result *result)
{
    pid_t pid = start_waiter(then, ret_go);
    if (pid < 0)
        return probe_fail(result, errno, "fork");
    char text[16];
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    if (probe_cgroup_put(group, "cgroup.procs", text) < 0)
        return probe_fail(result, errno, "put a process into a group below '%s'", group->where);
    return pid;
}

static int do_nothing(void)
{
    return 0;
}

static int do_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid < 0 && errno == EAGAIN ? 0 : 1;
}

static int set_limit(const struct group *group, unsigned which, int version,
                     struct probe_result *result)
{
    const char *file = version == 1 ? limits[which].file : limits[which].file2;
    const char *value = version == 1 ? limits[which].value : limits[which].value2;
    char found[64];
    if (probe_cgroup_put(group, file, value) < 0)
        return probe_fail(result, errno, "write %s", file);
    if (probe_cgroup_get(group, file, found, sizeof found) < 0 || strcmp(found, value) != 0)
        return probe_fail(result, 0, "%s does not have the value that was written", file);
    return 0;
}

PROBE_RUN(probe_cgroup_limit)
{
    unsigned which = probe->flag;
    const struct probe_hierarchy *tree = &env->cgroups.controllers[which];
    const char *file = tree->version == 1 ? limits[which].file : limits[which].file2;
    struct group group = {0};
    if (make_group(tree, env, limits[which].name, file, &group, result) < 0 ||
        set_limit(&group, which, tree->version, result) < 0)
        return;
    AUTO_CLOSE int go = -1;
    pid_t pid = start_inside(&group, which == PROBE_CTRL_PIDS ? do_fork : do_nothing, &go, result);
    if (pid < 0)
        return;
    (void)!write(go, "", 1);
    if (probe_wait(pid) != 0)
        (void)probe_fail(result, 0, "the limit was set but not enforced");
    else
        probe_say(result, PROBE_OK, "v%d, below %s", tree->version, group.where);
}

PROBE_RUN(probe_cgroup_kill)
{
    (void)probe;
    struct group group = {0};
    AUTO_CLOSE int go = -1;
    if (make_group(&env->cgroups.unified, env, NULL, NULL, &group, result) < 0)
        return;
    pid_t pid = start_inside(&group, do_nothing, &go, result);
    if (pid < 0)
        return;
    if (probe_cgroup_put(&group, "cgroup.kill", "1") < 0)
        (void)probe_fail(result, errno, "write cgroup.kill");
    else if (probe_wait(pid) != 128 + SIGKILL)
        (void)probe_fail(result, 0, "cgroup.kill did not end the process");
    else
        probe_say(result, PROBE_OK, "ended a process");
}

/* Waits for a file of the group to hold a text; freezing is not done at once. */
static bool comes_to(const struct group *group, const char *file, const char *text)
{
    char found[512];
    for (int64_t deadline = clock_now_ms() + 500; clock_now_ms() < deadline;) {
        if (probe_cgroup_get(group, file, found, sizeof found) == 0 && strstr(found, text) != NULL)
            return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return false;
}

static bool freeze(const struct probe_hierarchy *tree, const struct probe_env *env,
                   const char *file, const char *on, const char *off, const char *seen_in,
                   const char *seen, struct probe_result *result)
{
    struct group group = {0};
    AUTO_CLOSE int go = -1;
    if (make_group(tree, env, NULL, NULL, &group, result) < 0)
        return false;
    pid_t pid = start_inside(&group, do_nothing, &go, result);
    if (pid < 0)
        return false;
    if (probe_cgroup_put(&group, file, on) < 0)
        return probe_fail(result, errno, "write %s", file) == 0;
    bool frozen = comes_to(&group, seen_in, seen);
    /* Thawed before anything else: on v1 a frozen process does not even die. */
    bool thawed = probe_cgroup_put(&group, file, off) == 0;
    (void)!write(go, "", 1);
    if (!frozen || !thawed || probe_wait(pid) != 0)
        return probe_fail(result, 0, "%s did not freeze and thaw a process", file) == 0;
    probe_say(result, PROBE_OK, "%s, by %s", tree->version == 1 ? "v1" : "v2", file);
    return true;
}

PROBE_RUN(probe_cgroup_freeze)
{
    (void)probe;
    if (env->cgroups.unified.version == 2 && freeze(&env->cgroups.unified, env, "cgroup.freeze",
                                                    "1", "0", "cgroup.events", "frozen 1", result))
        return;
    if (env->cgroups.controllers[PROBE_CTRL_FREEZER].version == 1)
        (void)freeze(&env->cgroups.controllers[PROBE_CTRL_FREEZER], env, "freezer.state", "FROZEN",
                     "THAWED", "freezer.state", "FROZEN", result);
    else if (env->cgroups.unified.version == 0)
        (void)probe_fail(result, 0, "neither a v2 tree nor a v1 freezer is mounted");
}

PROBE_RUN(probe_cgroup_clone)
{
    (void)probe;
    struct group group = {0};
    if (make_group(&env->cgroups.unified, env, NULL, NULL, &group, result) < 0)
        return;
    AUTO_CLOSE int dir = SYS(open(group.dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (dir < 0) {
        (void)probe_fail(result, errno, "open the group");
        return;
    }
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dir};
    pid_t pid = (pid_t)SYS(syscall(SYS_clone3, &args, sizeof args));
    if (pid < 0) {
        (void)probe_fail(result, errno, "clone3");
        return;
    }
    if (pid == 0) {
        char text[4096];
        if (probe_read("/proc/self/cgroup", text, sizeof text) < 0)
            _exit(1);
        _exit(strstr(text, env->group) != NULL ? 0 : 1);
    }
    if (probe_wait(pid) != 0)
        (void)probe_fail(result, 0, "the child was not started in the group");
    else
        probe_say(result, PROBE_OK, "a child was started in its group");
}

static bool remove_group(const char *parent, const struct probe_env *env)
{
    char path[GROUP_PATH_MAX];
    char file[GROUP_PATH_MAX + 32];
    if (parent[0] == '\0')
        return true;
    (void)snprintf(path, sizeof path, "%s/%s", parent, env->group);
    if (rmdir(path) == 0 || errno == ENOENT)
        return true;
    /* A process may still be exiting, or be frozen by a probe that was stopped. */
    (void)snprintf(file, sizeof file, "%s/freezer.state", path);
    if (access(file, F_OK) == 0)
        (void)probe_write(file, "THAWED");
    for (int64_t deadline = clock_now_ms() + TIDY_MS; clock_now_ms() < deadline;) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return false;
}

/* Another group of sandglass exists beside the probe's, so what is switched on may be in use. */
static bool is_shared(const char *dir)
{
    bool shared = false;
    DIR *entries = opendir(dir);
    if (entries == NULL)
        return true;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        shared |= str_starts(str_of(entry->d_name), STR("sandglass"));
    (void)closedir(entries);
    return shared;
}

/* Disables the controllers that were not enabled before, unless another process has started to use
 * them: a disabled controller removes its limits. */
static void restore_controllers(const char *dir, const char *before)
{
    char path[GROUP_PATH_MAX];
    char now[PROBE_NAME_MAX];
    if (is_shared(dir))
        return;
    (void)snprintf(path, sizeof path, "%s/cgroup.subtree_control", dir);
    if (probe_read(path, now, sizeof now) < 0)
        return;
    struct str rest = str_of(now), name;
    while (str_split(&rest, ' ', &name)) {
        char word[64];
        if (probe_has_word(str_of(before), name))
            continue;
        (void)snprintf(word, sizeof word, "-%.*s", STR_ARG(name));
        (void)probe_write(path, word);
    }
}

bool probe_cgroup_tidy(const struct probe_env *env)
{
    const struct probe_cgroups *groups = &env->cgroups;
    bool clean = true;
    for (size_t i = 0; i < PROBE_CTRL_COUNT; i++) {
        clean &= remove_group(groups->controllers[i].own, env);
        clean &= remove_group(groups->controllers[i].top, env);
    }
    clean &= remove_group(groups->unified.own, env);
    clean &= remove_group(groups->unified.top, env);
    if (groups->unified.version == 2) {
        restore_controllers(groups->unified.own, groups->enabled_own);
        restore_controllers(groups->unified.top, groups->enabled_top);
    }
    return clean;
}
