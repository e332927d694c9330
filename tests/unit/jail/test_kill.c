/* One command can be ended with everything it started, while the rest of its jail goes on. */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
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

static struct jail *make(void)
{
    const struct jail_host *host = warden_host(warden());
    struct jail_plan plan = {0};
    struct jail *jail = NULL;
    struct err err = {0};
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    return jail;
}

/* Starts a script; with `out` its standard output can be read. */
static uint32_t start(struct jail *jail, const char *script, int *out)
{
    struct err err = {0};
    const char *argv[] = {"bash", "-c", script, NULL};
    int pair[2] = {-1, -1};
    uint32_t id;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (out != NULL)
        CHECK_INT(pipe2(pair, O_CLOEXEC), 0);
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv},
                        (int[]){null, out == NULL ? null : pair[1], null}, &id, NULL, &err));
    if (out != NULL) {
        CHECK_INT(close(pair[1]), 0);
        *out = pair[0];
    }
    return id;
}

static void wait_for_line(int fd)
{
    char byte = 0;
    while (byte != '\n')
        CHECK_INT(read(fd, &byte, 1), 1);
}

/* The names of what runs in the jail now. */
static void names(struct jail *jail, char *text, size_t size)
{
    struct err err = {0};
    int out = -1;
    struct jail_exit ended;
    uint32_t id = start(jail, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", &out);
    AUTO_CLOSE int reader = out;
    AUTO_BUF struct buf got = buf_with_limit(size - 1);
    CHECK_OK(buf_read_all(&got, reader, &err));
    (void)snprintf(text, size, "%s", buf_cstr(&got));
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_INT(ended.id, id);
}

/* Who was killed is seen until it has run once more to die. */
static void wait_until_gone(struct jail *jail, const char *what, char *text, size_t size)
{
    for (int i = 0; i < 6000; i++) {
        names(jail, text, size);
        if (strstr(text, what) == NULL)
            return;
        (void)usleep(10000);
    }
    fail_msg("'%s' still runs", what);
}

/* Out of the session, out of the group, and away from the parent. */
static const char hider[] = "(setsid bash -c '(sleep 1111 & sleep 1111 &) ; sleep 1111 & exit' &);"
                            "sleep 1111 & setsid sleep 1111 &"
                            "until [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' |"
                            " grep -cx 1111) = 5 ]; do sleep 0.05; done; echo ready; wait";

TEST(a_command_is_killed_with_all_that_hid_from_it)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = make();
    int out = -1;
    char text[8192];
    uint32_t other = start(jail, "exec sleep 2222", NULL);
    uint32_t bad = start(jail, hider, &out);
    AUTO_CLOSE int reader = out;
    wait_for_line(reader);
    names(jail, text, sizeof text);
    CHECK(strstr(text, "sleep 1111") != NULL && strstr(text, "sleep 2222") != NULL);
    CHECK_OK(jail_kill(jail, bad, &err));
    struct jail_exit ended;
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_INT(ended.id, bad);
    CHECK_INT(ended.signal, SIGKILL);
    wait_until_gone(jail, "sleep 1111", text, sizeof text);
    CHECK(strstr(text, "sleep 2222") != NULL);
    CHECK_OK(jail_kill(jail, bad, &err)); /* nobody left is fine */
    CHECK_OK(jail_kill(jail, other, &err));
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_INT(ended.id, other);
}

/* How many processes of the host have the word in their command line. */
static int count_with(const char *word)
{
    int count = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[300], text[1024];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
        count += got > 0 && memmem(text, (size_t)got, word, strlen(word)) != NULL;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

TEST(a_fork_bomb_ends_with_its_command)
{
    char script[128], mark[48];
    (void)snprintf(mark, sizeof mark, "sandglass-bomb-%d-", (int)getpid());
    (void)snprintf(script, sizeof script, "echo on; f() { f & f & }; f 2>&-; wait #%s", mark);
    struct err err = {0};
    AUTO_JAIL struct jail *jail = make();
    int out = -1;
    uint32_t bad = start(jail, script, &out);
    AUTO_CLOSE int reader = out;
    wait_for_line(reader);
    for (int i = 0; i < 6000 && count_with(mark) < 16; i++)
        (void)usleep(10000);
    CHECK_OK(jail_kill(jail, bad, &err));
    struct jail_exit ended;
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    char text[8192];
    wait_until_gone(jail, "echo on", text, sizeof text);
}

/* What the way of telling commands apart rests on. */
TEST(a_command_cannot_change_its_mark)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = make();
    int out = -1;
    struct jail_exit ended;
    (void)start(jail,
                "echo 1000 > /proc/self/oom_score_adj; echo 1000 > /proc/$$/oom_score_adj;"
                "cat /proc/self/oom_score_adj",
                &out);
    AUTO_CLOSE int reader = out;
    AUTO_BUF struct buf got = buf_with_limit(256);
    CHECK_OK(buf_read_all(&got, reader, &err));
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_CSTR(buf_cstr(&got), "502\n");
}
