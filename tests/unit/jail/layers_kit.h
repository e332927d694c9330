#pragma once

/* What the tests of layers and of limits share: one warden, a shell in a jail, paths. */

#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/tree.h"
#include "jail/client/jail.h"
#include "waiting.h"

/* Leaves the test: a jump over whatever would have been released by itself. */
#define KIT_SKIP(release, why)                                                                     \
    do {                                                                                           \
        release;                                                                                   \
        SKIP(why);                                                                                 \
    } while (0)

static struct warden_link *kit_link;

/* Filesystems of limited size are mounted for a while: not where others count the host's mounts,
 * and gone with us whatever happens. */
__attribute__((constructor)) static void kit_begin(void)
{
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0)
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static UNUSED struct warden_link *kit_warden(void)
{
    struct err err = {0};
    if (kit_link == NULL)
        CHECK_OK(warden_start(&kit_link, &err));
    return kit_link;
}

static UNUSED const char *kit_path(const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", test_tmpdir(), name);
    return path;
}

static UNUSED void kit_plan(struct jail_plan *plan)
{
    if (warden_host(kit_warden())->no_memory[0] != '\0')
        plan->limits.memory_bytes = plan->limits.cpu_milli = JAIL_UNLIMITED;
}

/* Commands that ended while another one was waited for. */
static struct kit_end {
    const struct jail *jail;
    uint32_t id;
} kit_ends[64];

/* Waits for the end of a command that runs or has ended. */
static UNUSED void kit_await_end(struct jail *jail, uint32_t id)
{
    struct err err = {0};
    struct jail_exit exit;
    for (size_t i = 0; i < countof(kit_ends); i++)
        if (kit_ends[i].jail == jail && kit_ends[i].id == id) {
            kit_ends[i] = (struct kit_end){0};
            return;
        }
    for (;;) {
        CHECK_OK(jail_wait(jail, 60000, &exit, &err));
        if (exit.id == id)
            return;
        size_t i = 0;
        while (i < countof(kit_ends) - 1 && kit_ends[i].jail != NULL)
            i++;
        kit_ends[i] = (struct kit_end){jail, exit.id};
    }
}

/* Runs a script in a jail that is there; gives what it wrote. */
static UNUSED const char *kit_run(struct jail *jail, const char *script)
{
    static char text[65536];
    struct err err = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c", script, NULL};
    int out[2];
    uint32_t id;
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv, .cwd = "/"},
                        (int[]){null, out[1], out[1]}, &id, NULL, &err));
    CHECK_INT(close(out[1]), 0);
    AUTO_BUF struct buf all = buf_with_limit(sizeof text - 1);
    CHECK_OK(buf_read_all(&all, reader, &err));
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&all));
    kit_await_end(jail, id);
    return text;
}

static UNUSED int kit_jail(struct jail_plan *plan, struct jail **ret_jail, struct err *err)
{
    kit_plan(plan);
    return jail_make(kit_warden(), plan, ret_jail, err);
}

/* The same in a fresh jail. */
static UNUSED const char *kit_shell(struct jail_plan plan, const char *script)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    CHECK_OK(kit_jail(&plan, &jail, &err));
    return kit_run(jail, script);
}

static UNUSED bool kit_has_loop_on(const char *part)
{
    char path[64], file[PATH_MAX];
    for (int i = 0; i < 4096; i++) {
        (void)snprintf(path, sizeof path, "/sys/block/loop%d/loop/backing_file", i);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd < 0 ? 0 : read(fd, file, sizeof file - 1);
        if (len <= 0)
            continue;
        file[len] = '\0';
        /* Others on this machine have theirs. */
        if (strstr(file, test_tmpdir()) != NULL && strstr(file, part) != NULL)
            return true;
    }
    return false;
}

static UNUSED bool kit_is_mounted_below(const char *part)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    AUTO_CLOSE int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&text, fd, &err));
    struct str rest = buf_str(&text), line;
    while (rest.len > 0 && str_split(&rest, '\n', &line))
        if (str_find(line, str_of(test_tmpdir())) < line.len && /* others have theirs */
            str_find(line, str_of(part)) < line.len)
            return true;
    return false;
}

/* The kernel takes a mount apart in its own time. */
static UNUSED void kit_check_clean(const char *part)
{
    for (int i = 0; i < 6000 && kit_has_loop_on(part); i++)
        (void)usleep(10000);
    CHECK(!kit_has_loop_on(part));
    CHECK(!kit_is_mounted_below(part));
}

/* Without privilege the harness cannot remove what overlayfs leaves without permissions. */
__attribute__((destructor)) static void kit_clean(void)
{
    struct err err;
    kit_link = warden_free(kit_link);
    AUTO_CLOSE int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && tree_reclaim(fd, &err) < 0)
        (void)fprintf(stderr, "# left behind: %s\n", err.msg);
    (void)rmdir(test_tmpdir());
}
