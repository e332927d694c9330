/* The process that every jail's first process is a copy of. */

#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/jail.h"

/* Names that appear nowhere else. */
#define FIRST_HOST "the-host-name-of-the-first"
#define SECOND_HOST "the-host-name-of-the-second"

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

static struct jail *make(struct jail_plan plan)
{
    const struct jail_host *host = warden_host(warden());
    struct err err = {0};
    struct jail *jail = NULL;
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    return jail;
}

static void run_true(struct jail *jail)
{
    const char *argv[] = {"true", NULL};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct err err = {0};
    struct jail_exit ended;
    uint32_t id;
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                        NULL, &err));
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_INT(ended.code, 0);
}

static void read_file(const char *path, struct buf *out)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    buf_clear(out);
    if (fd >= 0)
        (void)!buf_read_all(out, fd, &err);
}

static pid_t pid_of(int pidfd)
{
    char path[64];
    int pid = -1;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    AUTO_BUF struct buf text = buf_with_limit(4096);
    read_file(path, &text);
    const char *line = strstr(buf_cstr(&text), "Pid:");
    CHECK(line != NULL && sscanf(line, "Pid: %d", &pid) == 1);
    return pid;
}

/* Reads what a process has written to; false: this test may not. */
static bool read_memory(pid_t pid, struct buf *out)
{
    char path[64];
    AUTO_BUF struct buf maps = buf_with_limit(1 << 20);
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    read_file(path, &maps);
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    AUTO_CLOSE int mem = open(path, O_RDONLY | O_CLOEXEC);
    if (mem < 0 || maps.len == 0)
        return false;
    struct str rest = buf_str(&maps), line;
    while (str_split(&rest, '\n', &line)) {
        unsigned long from, to;
        char access[8], bytes[4096];
        if (sscanf(line.ptr, "%lx-%lx %7s", &from, &to, access) != 3 || access[1] != 'w')
            continue;
        for (; from < to; from += sizeof bytes)
            if (pread(mem, bytes, sizeof bytes, (off_t)from) == (ssize_t)sizeof bytes)
                buf_put(out, str_n(bytes, sizeof bytes));
    }
    return true;
}

static bool has(const struct buf *memory, const char *word)
{
    return memory->len > 0 && memmem(memory->ptr, memory->len, word, strlen(word)) != NULL;
}

TEST(a_jail_knows_nothing_of_another_or_of_its_warden)
{
    const char *dir = test_tmpdir();
    CHECK_INT(chmod(dir, 0777), 0);
    struct jail_plan plan = {.hostname = FIRST_HOST, .workspace = dir};
    AUTO_JAIL struct jail *first = make(plan);
    run_true(first);
    plan.hostname = SECOND_HOST;
    AUTO_JAIL struct jail *second = make(plan);
    run_true(second);
    AUTO_BUF struct buf memory = buf_with_limit(64 << 20);
    if (!read_memory(pid_of(jail_pidfd(second)), &memory))
        SKIP("a jail's first process lets only root look");
    CHECK(memory.len > 0);
    CHECK(has(&memory, "/bin")); /* the command that it started: the search finds what is there */
    CHECK(!has(&memory, FIRST_HOST));
    CHECK(!has(&memory, SECOND_HOST));
    CHECK(!has(&memory, dir));
}

struct children {
    pid_t init_spawner; /* the only one without a pid namespace of its own that is no fd_closer */
    int jails, dead;
};

static struct children children_of_the_warden(void)
{
    char path[64];
    struct children found = {.init_spawner = -1};
    AUTO_BUF struct buf list = buf_with_limit(1 << 16);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)warden_pid(warden()),
                   (int)warden_pid(warden()));
    read_file(path, &list);
    struct str rest = str_trim(buf_str(&list)), word;
    while (str_split(&rest, ' ', &word)) {
        AUTO_BUF struct buf status = buf_with_limit(1 << 14);
        int outer, inner;
        (void)snprintf(path, sizeof path, "/proc/%.*s/status", STR_ARG(word));
        read_file(path, &status);
        const char *spaces = strstr(buf_cstr(&status), "NSpid:");
        if (spaces == NULL || strstr(buf_cstr(&status), "fd_closer") != NULL)
            continue;
        int count = sscanf(spaces, "NSpid:%*[\t]%d%*[\t]%d", &outer, &inner);
        if (strstr(buf_cstr(&status), "Z (zombie)") != NULL)
            found.dead++;
        else if (count == 1)
            found.init_spawner = (pid_t)outer;
        else
            found.jails++;
    }
    return found;
}

static pid_t find_init_spawner(void)
{
    return children_of_the_warden().init_spawner;
}

/* What is asked of one that dies meanwhile fails: only one that is dead is replaced. */
static void wait_until_dead(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    for (int i = 0; i < 12000; i++) {
        AUTO_BUF struct buf status = buf_with_limit(1 << 14);
        read_file(path, &status);
        if (status.len == 0 || strstr(buf_cstr(&status), "Z (zombie)") != NULL)
            return;
        (void)usleep(10000);
    }
    fail_msg("the init spawner still lives");
}

TEST(a_init_spawner_that_was_killed_is_replaced)
{
    AUTO_JAIL struct jail *before = make((struct jail_plan){0});
    pid_t spawner = find_init_spawner();
    CHECK(spawner > 0);
    CHECK_INT(kill(spawner, SIGKILL), 0);
    wait_until_dead(spawner);
    AUTO_JAIL struct jail *after = make((struct jail_plan){0});
    run_true(after);
    run_true(before);
    pid_t next = find_init_spawner();
    CHECK(next > 0 && next != spawner);
}

enum moment { COPY_STANDS_STILL, COPY_IS_INIT };

/* Stops the init spawner at its next clone and kills it before it can report
 * the copy, which then continues by itself: at once, or before that. One byte reports readiness. */
static void NORETURN kill_at_clone(pid_t spawner, enum moment moment, int ready)
{
    int status;
    unsigned long copy = 0;
    if (ptrace(PTRACE_SEIZE, spawner, NULL, PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK) < 0)
        _exit(2);
    if (write(ready, "", 1) != 1 || waitpid(spawner, &status, __WALL) != spawner ||
        ptrace(PTRACE_GETEVENTMSG, spawner, NULL, &copy) < 0)
        _exit(1);
    if (moment == COPY_IS_INIT) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%lu/status", copy);
        if (waitpid((pid_t)copy, &status, __WALL) < 0 ||
            ptrace(PTRACE_DETACH, (pid_t)copy, NULL, NULL) < 0)
            _exit(1);
        /* Its complete filter is the last thing before it waits for questions. */
        for (int i = 0; i < 12000; i++) {
            AUTO_BUF struct buf text = buf_with_limit(1 << 14);
            read_file(path, &text);
            if (strstr(buf_cstr(&text), "Seccomp_filters:\t2") != NULL &&
                strstr(buf_cstr(&text), "S (sleeping)") != NULL)
                break;
            (void)usleep(1000);
        }
    }
    if (kill(spawner, SIGKILL) < 0 || waitpid(spawner, &status, __WALL) != spawner)
        _exit(1);
    _exit(0);
}

/* -1: this test may not trace the init spawner. */
static pid_t start_killer(pid_t spawner, enum moment moment)
{
    int ready[2];
    char byte;
    CHECK_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0) {
        (void)close(ready[0]);
        kill_at_clone(spawner, moment, ready[1]);
    }
    (void)close(ready[1]);
    ssize_t got = read(ready[0], &byte, 1);
    (void)close(ready[0]);
    if (got == 1)
        return killer;
    CHECK_INT(waitpid(killer, NULL, 0), killer);
    return -1;
}

/* Until the warden has as many jails as it should, and nobody dead. */
static void wait_for_children(int jails)
{
    struct children now = {0};
    for (int i = 0; i < 12000; i++) {
        now = children_of_the_warden();
        if (now.jails == jails && now.dead == 0 && now.init_spawner > 0)
            return;
        (void)usleep(10000);
    }
    fail_msg("%d jails for %d, %d dead, spawner %d", now.jails, jails, now.dead,
             (int)now.init_spawner);
}

static void lose_a_birth(enum moment moment)
{
    const struct jail_host *host = warden_host(warden());
    struct err err = {0};
    int status;
    struct jail_plan plan = {0};
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    wait_for_children(0);
    pid_t spawner = find_init_spawner();
    pid_t killer = start_killer(spawner, moment);
    if (killer < 0)
        SKIP("the init spawner cannot be traced here");
    struct jail *lost = NULL;
    CHECK_ERR(jail_make(warden(), &plan, &lost, &err), ERR_UNAVAILABLE);
    CHECK_MSG("try again");
    CHECK_INT(waitpid(killer, &status, 0), killer);
    CHECK_INT(status, 0);
    wait_for_children(0);
    CHECK(find_init_spawner() != spawner);
    AUTO_JAIL struct jail *next = make((struct jail_plan){0});
    run_true(next);
    wait_for_children(1);
}

TEST(a_jail_whose_birth_was_not_reported_is_ended_and_its_owner_told)
{
    lose_a_birth(COPY_STANDS_STILL);
}

TEST(so_is_one_that_had_become_init)
{
    lose_a_birth(COPY_IS_INIT);
}
