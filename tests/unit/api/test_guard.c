#include "api/http/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "test.h"

enum { NOW = 1000000 };

static struct sockaddr_in v4(uint32_t host)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
}

static int64_t fail_v4(struct guard *guard, uint32_t host, int64_t now_ms)
{
    struct sockaddr_in addr = v4(host);
    return guard_fail(guard, (const struct sockaddr *)&addr, now_ms);
}

static int64_t fail_v6(struct guard *guard, const char *text)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
    CHECK_INT(inet_pton(AF_INET6, text, &addr.sin6_addr), 1);
    return guard_fail(guard, (const struct sockaddr *)&addr, NOW);
}

TEST(a_burst_passes_then_one_each_step)
{
    static struct guard guard;
    for (int i = 0; i < GUARD_BURST; i++)
        CHECK_INT(fail_v4(&guard, 1, NOW), 0);
    CHECK_INT(fail_v4(&guard, 1, NOW), 1);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(fail_v4(&guard, 1, NOW + GUARD_STEP_MS - 1), 1);
    CHECK_INT(fail_v4(&guard, 1, NOW + GUARD_STEP_MS), 0);
    CHECK_INT(fail_v4(&guard, 1, NOW + GUARD_STEP_MS), 1);
    for (int i = 0; i < GUARD_BURST; i++) /* all is forgotten */
        CHECK_INT(fail_v4(&guard, 1, NOW + (GUARD_BURST + 1) * GUARD_STEP_MS), 0);
}

TEST(each_address_has_its_own_count)
{
    static struct guard guard;
    for (int i = 0; i <= GUARD_BURST; i++) {
        (void)fail_v4(&guard, 1, NOW);
        (void)fail_v6(&guard, "2001:db8::1");
        (void)guard_fail(&guard, NULL, NOW);
    }
    CHECK_INT(fail_v4(&guard, 2, NOW), 0);
    CHECK_INT(fail_v4(&guard, 1, NOW), 1);
    CHECK_INT(fail_v6(&guard, "2001:db8:0:1::1"), 0);
    CHECK_INT(fail_v6(&guard, "2001:db8::ffff:2"), 1);
    const struct sockaddr local = {.sa_family = AF_UNIX};
    CHECK_INT(guard_fail(&guard, &local, NOW), 1);
}

/* A crowd of addresses pushes out whom it meets, but those with most failures go last. */
TEST(a_crowd_does_not_wash_a_hammering_address_out)
{
    static struct guard guard;
    for (int i = 0; i <= GUARD_BURST; i++)
        (void)fail_v4(&guard, 1, NOW);
    for (uint32_t host = 2; host < 100000; host++)
        CHECK_INT(fail_v4(&guard, host, NOW), 0);
    CHECK_INT(fail_v4(&guard, 1, NOW), 1);
}
