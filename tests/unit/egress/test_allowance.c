/* What the fetches of one isolate have together: turns, rate and sum. */

#include "test.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "egress/gateway/allowance.h"
#include "io/loop.h"

struct one {
    struct allowance_user user;
    int turns, refills;
};

static void on_turn(void *ctx)
{
    struct one *one = ctx;
    one->turns++;
}

static void on_refill(void *ctx)
{
    struct one *one = ctx;
    one->refills++;
}

static bool enter(struct allowance *allowance, struct one *one)
{
    one->user = (struct allowance_user){.on_turn = on_turn, .on_refill = on_refill, .ctx = one};
    return allowance_enter(allowance, &one->user);
}

static bool step_until(struct loop *loop, const int *count)
{
    for (int64_t end = clock_now_ms() + 120000; *count == 0 && clock_now_ms() < end;) {
        (void)loop_step(loop);
        (void)usleep(1000);
    }
    return *count > 0;
}

static void settle(struct loop *loop)
{
    for (int i = 0; i < 20; i++) {
        (void)loop_step(loop);
        (void)usleep(500);
    }
}

static void sum(void *ctx, int64_t bytes)
{
    *(int64_t *)ctx += bytes;
}

TEST(who_comes_later_waits_in_order)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    struct one a = {0}, b = {0}, c = {0}, d = {0};
    CHECK_OK(loop_open(&loop, &err));
    struct egress_proxy_limits limits = {.connections = 2};
    AUTO(allowance_freep) struct allowance *allowance = allowance_new(loop, &limits, NULL, NULL);
    CHECK(enter(allowance, &a) && enter(allowance, &b));
    CHECK(!enter(allowance, &c) && !enter(allowance, &d));
    settle(loop);
    CHECK(c.turns == 0 && d.turns == 0);
    allowance_leave(&a.user);
    CHECK(step_until(loop, &c.turns));
    settle(loop);
    CHECK(c.turns == 1 && d.turns == 0);
    /* One that waits may go, and one that has gone may go again. */
    allowance_leave(&d.user);
    allowance_leave(&b.user);
    allowance_leave(&b.user);
    CHECK(enter(allowance, &a));
    allowance_leave(&a.user);
    allowance_leave(&c.user);
    settle(loop);
    CHECK(d.turns == 0);
}

TEST(more_room_lets_those_in_who_wait)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    struct one a = {0}, b = {0};
    CHECK_OK(loop_open(&loop, &err));
    struct egress_proxy_limits limits = {.connections = 1};
    AUTO(allowance_freep) struct allowance *allowance = allowance_new(loop, &limits, NULL, NULL);
    CHECK(enter(allowance, &a) && !enter(allowance, &b));
    limits.connections = 2;
    allowance_set_limits(allowance, &limits);
    CHECK(step_until(loop, &b.turns));
    allowance_leave(&a.user);
    allowance_leave(&b.user);
}

TEST(bytes_wait_for_the_rate)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    struct one a = {0};
    CHECK_OK(loop_open(&loop, &err));
    struct egress_proxy_limits limits = {.bytes_per_second = 100000};
    AUTO(allowance_freep) struct allowance *allowance = allowance_new(loop, &limits, NULL, NULL);
    CHECK(enter(allowance, &a));
    settle(loop);
    a.refills = 0;
    CHECK(!allowance_is_dry(allowance));
    int64_t began = clock_now_ms();
    allowance_count(allowance, 40000, false); /* 15000 more than were there */
    CHECK(allowance_is_dry(allowance));
    CHECK(step_until(loop, &a.refills));
    CHECK(!allowance_is_dry(allowance) && clock_now_ms() - began >= 100);
    allowance_leave(&a.user);
}

TEST(the_sum_ends_it_and_a_higher_one_goes_on)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    int64_t told = 0;
    CHECK_OK(loop_open(&loop, &err));
    struct egress_proxy_limits limits = {.bytes_total = 1000, .bytes_before = 300};
    AUTO(allowance_freep) struct allowance *allowance = allowance_new(loop, &limits, sum, &told);
    CHECK_OK(allowance_check(allowance, &err));
    allowance_count(allowance, 600, false);
    CHECK_OK(allowance_check(allowance, &err));
    allowance_count(allowance, 100, true);
    CHECK_ERR(allowance_check(allowance, &err), ERR_LIMIT);
    CHECK(strstr(err.msg, "1000 bytes") != NULL);
    CHECK(told == 700);
    limits.bytes_total = 2000;
    allowance_set_limits(allowance, &limits);
    CHECK_OK(allowance_check(allowance, &err));
}
