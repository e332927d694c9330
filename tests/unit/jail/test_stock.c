/* Groups and networks serve again: a jail must not be able to tell. */

#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/jail.h"
#include "waiting.h"

enum { ROUNDS = 24 };

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

static bool has_limits(void)
{
    const struct jail_host *host = warden_host(warden());
    return host->no_memory[0] == '\0' && host->no_pids[0] == '\0' && host->no_cpu[0] == '\0';
}

/* Limits that this host cannot give are switched off by name. */
static struct jail_plan possible(struct jail_plan plan)
{
    const struct jail_host *host = warden_host(warden());
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

/* Runs it in a jail of its own; the output goes to `out`. */
static void run(const struct jail_plan *plan, const char *script, char *out, size_t size,
                struct jail_stats *ret_stats)
{
    struct err err = {0};
    struct jail_plan able = possible(*plan);
    const char *argv[] = {"bash", "-c", script, NULL};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int pair[2];
    uint32_t id;
    CHECK_INT(pipe2(pair, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = pair[0];
    CHECK_OK(jail_make(warden(), &able, &jail, &err));
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, pair[1], null},
                        &id, NULL, &err));
    CHECK_INT(close(pair[1]), 0);
    AUTO_BUF struct buf text = buf_with_limit(size - 1);
    CHECK_OK(buf_read_all(&text, reader, &err));
    (void)snprintf(out, size, "%s", buf_cstr(&text));
    struct jail_exit ended;
    CHECK_OK(jail_wait(jail, 60000, &ended, &err));
    CHECK_OK(jail_end(jail, ret_stats, &err));
}

TEST(what_one_jail_came_to_is_not_told_of_the_next)
{
    if (!has_limits())
        SKIP("this host cannot limit memory, processes and cpu");
    struct jail_plan small = {.limits = {.memory_bytes = 48 << 20}};
    struct jail_stats stats;
    char text[4096];
    run(&small, "head -c 60m /dev/zero > /dev/shm/x", text, sizeof text, &stats);
    CHECK(stats.oom_kills >= 1);
    CHECK(stats.memory_peak > 40 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        run(&small, "echo fine", text, sizeof text, &stats);
        CHECK_CSTR(text, "fine\n");
        CHECK_INT(stats.oom_kills, 0);
        CHECK_INT(stats.pids_refused, 0);
        CHECK(stats.memory_peak < 24 << 20);
    }
}

TEST(limits_are_the_jails_own_in_a_reused_group)
{
    if (!has_limits())
        SKIP("this host cannot limit memory, processes and cpu");
    static const int64_t sizes[] = {32 << 20, 512 << 20, JAIL_UNLIMITED, 48 << 20};
    for (size_t i = 0; i < 2 * countof(sizes); i++) {
        struct jail_stats stats;
        char text[64];
        int64_t bytes = sizes[i % countof(sizes)];
        struct jail_plan plan = {.limits = {.memory_bytes = bytes}};
        run(&plan, "head -c 60m /dev/zero > /dev/shm/x", text, sizeof text, &stats);
        bool fits = bytes == JAIL_UNLIMITED || bytes > 60 << 20;
        CHECK_INT(stats.oom_kills > 0, !fits);
    }
}

TEST(a_network_that_was_used_is_not_given_again)
{
    static const char look[] = "read -d '' -r all < /proc/net/dev; echo \"${all##*lo:}\" | xargs;"
                               "grep -c . /proc/net/ip6_flowlabel; grep Udp: /proc/net/snmp";
    static const char *const uses[] = {
        "echo x > /dev/udp/127.0.0.1/9", "echo x > /dev/udp/192.0.2.1/9",
        "(exec 3<> /dev/tcp/127.0.0.1/9)", "echo x > /dev/udp/::1/9"};
    char first[4096], text[4096];
    struct jail_stats stats;
    run(&(struct jail_plan){0}, look, first, sizeof first, &stats);
    CHECK(first[0] == '0');
    for (size_t i = 0; i < ROUNDS; i++) {
        run(&(struct jail_plan){0}, uses[i % countof(uses)], text, sizeof text, &stats);
        run(&(struct jail_plan){0}, look, text, sizeof text, &stats);
        CHECK_CSTR(text, first);
    }
}

static int count_children(pid_t pid)
{
    int count = 0;
    char path[64], text[4096] = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) >= 0);
    for (const char *at = text; (at = strchr(at, ' ')) != NULL; at++)
        count++;
    return count;
}

/* Waits until the warden has `wanted` processes below it. */
static int settled_children(pid_t pid, int wanted)
{
    int count = count_children(pid);
    for (int tries = 0; tries < 6000 && count != wanted; tries++) {
        (void)usleep(10000);
        count = count_children(pid);
    }
    return count;
}

/* How many it has when their number has not changed for four seconds. */
static int resting_children(pid_t pid)
{
    int count = -1;
    for (int tries = 0, same = 0; tries < 6000 && same < 400; tries++) {
        int now = count_children(pid);
        same = now == count ? same + 1 : 0;
        count = now;
        (void)usleep(10000);
    }
    return count;
}

TEST(a_pool_has_its_size_rests_and_wakes)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *own = NULL;
    CHECK_OK(warden_start(&own, &err));
    pid_t pid = warden_pid(own);
    int helpers = resting_children(pid);
    struct jail_plan plan = possible((struct jail_plan){0});
    CHECK_OK(warden_pool(own, &plan, 5, 3000, &err)); /* long enough to be seen */
    CHECK_INT(settled_children(pid, helpers + 5), helpers + 5);
    CHECK_INT(settled_children(pid, helpers + 1), helpers + 1);
    AUTO_JAIL struct jail *jail = NULL;
    CHECK_OK(jail_make(own, &plan, &jail, &err));
    CHECK_INT(settled_children(pid, helpers + 6), helpers + 6);
    CHECK_ERR(warden_pool(own, &plan, 513, 0, &err), ERR_INVALID);
    CHECK_ERR(warden_pool(own, &plan, 5, -1, &err), ERR_INVALID);
}
