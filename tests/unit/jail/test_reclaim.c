/* A warden that is killed under its jails leaves nothing; one that lives loses nothing. */

#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/jail.h"
#include "waiting.h"

enum { JAILS = 3, CHILDREN_MAX = 64 };

static struct jail_plan possible(struct warden_link *warden)
{
    const struct jail_host *host = warden_host(warden);
    struct jail_plan plan = {0};
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

static void read_proc(pid_t pid, const char *name, struct buf *text)
{
    char path[64];
    struct err err = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(buf_read_all(text, fd, &err));
}

/* The name of the corner that a jail of this warden sits in; "" where the host gives none. */
static void corner_of(pid_t pid, char out[64])
{
    AUTO_BUF struct buf text = buf_with_limit(1 << 16);
    out[0] = '\0';
    read_proc(pid, "cgroup", &text);
    const char *at = strstr(buf_cstr(&text), "/sandglass-");
    if (at != NULL)
        (void)snprintf(out, 64, "%.*s", (int)strcspn(at + 1, "/\n"), at + 1);
}

static const char *wanted;
static int found;

static int count_group(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    found += type == FTW_D && strcmp(path + at->base, wanted) == 0;
    return 0;
}

static int corners(const char *name)
{
    wanted = name;
    found = 0;
    if (name[0] != '\0')
        (void)nftw("/sys/fs/cgroup", count_group, 16, FTW_PHYS);
    return found;
}

/* Any warden that starts meanwhile reclaims too, and may be halfway when we look. */
static bool corner_goes(const char *name)
{
    for (int i = 0; i < 6000 && corners(name) > 0; i++)
        (void)usleep(10000);
    return corners(name) == 0;
}

/* Pidfds of every process below the warden. */
static size_t open_children(pid_t pid, int pidfds[CHILDREN_MAX], pid_t *ret_any)
{
    AUTO_BUF struct buf text = buf_with_limit(1 << 16);
    char name[64];
    (void)snprintf(name, sizeof name, "task/%d/children", (int)pid);
    read_proc(pid, name, &text);
    struct str rest = buf_str(&text), word;
    size_t count = 0;
    while (str_split(&rest, ' ', &word) && count < CHILDREN_MAX) {
        int64_t child;
        if (!str_to_i64(str_trim(word), 1, INT32_MAX, &child))
            continue;
        *ret_any = (pid_t)child;
        pidfds[count] = (int)syscall(SYS_pidfd_open, (pid_t)child, 0);
        count += pidfds[count] >= 0;
    }
    return count;
}

/* Dead, and the process that starts the next one knows it. */
static void kill_warden(struct warden_link *warden)
{
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, warden_pid(warden), 0);
    struct pollfd dead = {.fd = pidfd, .events = POLLIN};
    CHECK_INT(kill(warden_pid(warden), SIGKILL), 0);
    CHECK_INT(poll(&dead, 1, 60000), 1);
}

static void run_true(struct jail *jail)
{
    struct err err = {0};
    const char *argv[] = {"true", NULL};
    uint32_t id;
    struct jail_exit ended;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                        NULL, &err));
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_INT(ended.code, 0);
}

static void start_loop(struct jail *jail)
{
    struct err err = {0};
    const char *argv[] = {"sh", "-c", "setsid sleep 1000 & while :; do sleep 0.1; done", NULL};
    uint32_t id;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                        NULL, &err));
}

TEST(a_killed_warden_leaves_nothing_and_a_living_one_loses_nothing)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *living = NULL, *doomed = NULL, *next = NULL;
    AUTO_JAIL struct jail *kept = NULL;
    struct jail *jails[JAILS] = {0};
    CHECK_OK(warden_start(&living, &err));
    CHECK_OK(warden_start(&doomed, &err));
    struct jail_plan plan = possible(living);
    CHECK_OK(jail_make(living, &plan, &kept, &err));
    CHECK_OK(warden_pool(doomed, &plan, JAILS, 0, &err));
    for (int i = 0; i < JAILS; i++) {
        CHECK_OK(jail_make(doomed, &plan, &jails[i], &err));
        start_loop(jails[i]);
    }

    int pidfds[CHILDREN_MAX], others[CHILDREN_MAX];
    pid_t one = 0, other = 0;
    char corner[64], spared[64];
    size_t count = open_children(warden_pid(doomed), pidfds, &one);
    size_t other_count = open_children(warden_pid(living), others, &other);
    CHECK(count > JAILS && other_count > 0);
    /* The last child is a jail, the first the fd_closer. */
    corner_of(one, corner);
    corner_of(other, spared);
    int living_had = corners(spared);
    kill_warden(doomed);

    CHECK_OK(warden_start(&next, &err));
    CHECK(corner_goes(corner));
    CHECK_INT(corners(spared), living_had);
    for (size_t i = 0; i < count; i++) {
        struct pollfd dead = {.fd = pidfds[i], .events = POLLIN};
        CHECK_INT(poll(&dead, 1, 60000), 1);
        CHECK_INT(close(pidfds[i]), 0);
    }
    for (size_t i = 0; i < other_count; i++) {
        struct pollfd dead = {.fd = others[i], .events = POLLIN};
        CHECK_INT(poll(&dead, 1, 0), 0);
        CHECK_INT(close(others[i]), 0);
    }
    run_true(kept);
    for (int i = 0; i < JAILS; i++)
        (void)jail_free(jails[i]);
}

TEST(the_next_warden_reclaims_by_itself)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *doomed = NULL, *next = NULL;
    CHECK_OK(warden_start(&doomed, &err));
    struct jail_plan plan = possible(doomed);
    struct jail *jail = NULL;
    CHECK_OK(jail_make(doomed, &plan, &jail, &err));
    int pidfds[CHILDREN_MAX];
    pid_t one = 0;
    char corner[64];
    size_t count = open_children(warden_pid(doomed), pidfds, &one);
    corner_of(one, corner);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(close(pidfds[i]), 0);
    kill_warden(doomed);
    CHECK_OK(warden_start(&next, &err));
    CHECK(corner_goes(corner));
    AUTO_JAIL struct jail *works = NULL;
    CHECK_OK(jail_make(next, &plan, &works, &err));
    run_true(works);
    (void)jail_free(jail);
}
