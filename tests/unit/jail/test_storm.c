/* The end of a jail wins against processes that fork without end, paused or not, whatever the host
 * offers to kill them with. */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "jail/client/client.h"
#include "waiting.h"

/* 64 processes, each of which forks a successor and exits; with little cpu time, so that all of
 * them, and init, wait for it most of the time. */
static const char storm[] = "exec perl -e '$|=1; print \"on\\n\";"
                            "for(1..64){if(!fork){while(1){exit if fork}}} sleep 600 #%s'";

/* In the command line of each of them; other programs may run this test at the same time. */
static const char *storm_mark(void)
{
    static char mark[48];
    (void)snprintf(mark, sizeof mark, "sandglass-storm-%d-", (int)getpid());
    return mark;
}

enum { CPU_MILLI = 200, STORM_MS = 1000, END_MS = 120000, END_SOAK_MS = 1000 };

/* A busy machine may need longer than what is promised; a soak is run on an idle one. */
static int end_ms(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread changes the environment */
    return getenv("SG_SOAK") != NULL ? END_SOAK_MS : END_MS;
}

/* A test may do without parts of control groups: each gets a warden of its own. */
static struct warden_link *warden_without(const char *without)
{
    struct warden_link *warden = NULL;
    struct err err = {0};
    CHECK_INT(setenv("SG_TEST_WITHOUT", without, 1), 0);
    CHECK_OK(warden_start(&warden, &err));
    CHECK_INT(unsetenv("SG_TEST_WITHOUT"), 0);
    return warden;
}

static struct jail *make(struct warden_link *warden)
{
    const struct jail_host *host = warden_host(warden);
    struct jail_plan plan = {.limits.cpu_milli = CPU_MILLI};
    struct jail *jail = NULL;
    struct err err = {0};
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    CHECK_OK(jail_make(warden, &plan, &jail, &err));
    return jail;
}

static void start_storm(struct jail *jail)
{
    struct err err = {0};
    char script[256];
    const char *argv[] = {"bash", "-c", script, NULL};
    char text[4] = "";
    int pair[2];
    uint32_t id;
    (void)snprintf(script, sizeof script, storm, storm_mark());
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(pipe2(pair, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = pair[0];
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, pair[1], null},
                        &id, NULL, &err));
    CHECK_INT(close(pair[1]), 0);
    CHECK_INT(read(reader, text, 3), 3);
    (void)usleep(STORM_MS * 1000);
}

/* On the host: how many have the word in their command line. */
static int count_left(void)
{
    int count = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[300], text[1024];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        count += got > 0 && memmem(text, (size_t)got, storm_mark(), strlen(storm_mark())) != NULL;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static void end_one(struct warden_link *warden, bool paused)
{
    struct err err = {0};
    struct jail *jail = make(warden);
    start_storm(jail);
    if (paused && warden_host(warden)->no_freeze[0] == '\0')
        CHECK_OK(jail_freeze(jail, true, &err));
    int64_t since = clock_now_ns();
    CHECK_OK(jail_end(jail, NULL, &err));
    int64_t took_ms = (clock_now_ns() - since) / 1000000;
    (void)jail_free(jail);
    printf("# %s: ended within %lld ms\n", paused ? "paused" : "running", (long long)took_ms);
    CHECK(took_ms < end_ms());
    CHECK_INT(count_left(), 0);
}

static void end_both(const char *without)
{
    struct warden_link *warden = warden_without(without);
    end_one(warden, false);
    end_one(warden, true);
    (void)warden_free(warden);
}

TEST(a_storm_ends_with_its_jail)
{
    end_both("");
}

TEST(a_storm_ends_without_the_kill_of_control_groups)
{
    end_both("kill");
}

TEST(a_storm_ends_where_the_old_freezer_holds_killed_processes)
{
    end_both("unified");
}

TEST(a_storm_ends_without_control_groups)
{
    end_both("groups");
}

/* The daemon went away: nobody asks for the end of the jail. */
TEST(a_frozen_storm_ends_with_its_warden)
{
    struct err err = {0};
    struct warden_link *warden = warden_without("unified");
    struct jail *jail = make(warden);
    start_storm(jail);
    if (warden_host(warden)->no_freeze[0] == '\0')
        CHECK_OK(jail_freeze(jail, true, &err));
    jail->ended = true; /* is not asked for */
    (void)jail_free(jail);
    (void)warden_free(warden);
    CHECK_INT(count_left(), 0);
}
