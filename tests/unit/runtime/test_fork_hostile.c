/* Tenants that would have the zygote, which all of them share, wait or die for theirs. */

#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/client/client.h"
#include "jail/wire/oom_tag.h"
#include "waiting.h"

/* An interpreter that is asked for; nobody waits for it. */
static struct interpreter *ask(struct jail *jail, uint32_t *ret_id)
{
    struct err err = {0};
    struct interpreter *interpreter = NULL;
    int inner[3];
    CHECK_OK(interpreter_open(&interpreter, inner, &err));
    CHECK_OK(jail_ask_fork(jail, &(struct jail_command){0}, inner, ret_id, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return interpreter;
}

/* An interpreter in a jail of its own. */
static void join(struct stage *stage, const struct stage *host)
{
    stage->warden = host->warden;
    stage->borrows_warden = true;
    stage_jail(stage);
    stage_fork(stage);
}

/* Has the fork that was asked for been made or refused? */
static bool is_answered(struct jail *jail, uint32_t id)
{
    struct jail_event event;
    while (jail_next(jail, &event))
        if (event.id == id &&
            (event.type == JAIL_EVENT_STARTED || event.type == JAIL_EVENT_REFUSED))
            return true;
    return false;
}

/* Whether a fork into another jail is done before one into this jail that was asked for earlier. */
static bool is_before_slow(struct stage *stage)
{
    AUTO_STAGE struct stage other = {0};
    uint32_t id;
    struct interpreter *slow = ask(stage->jail, &id);
    join(&other, stage);
    bool is_first = !is_answered(stage->jail, id);
    slow = interpreter_free(slow);
    return is_first;
}

TEST(res11_a_jail_without_processor_time_does_not_hold_up_the_zygote)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json");
    if (warden_host(stage.warden)->no_cpu[0] != '\0') {
        stage.warden = warden_free(stage.warden); /* a skip leaves nothing to be freed */
        SKIP("this host has no processor time to limit");
    }
    struct jail_plan plan = stage_plan(stage.warden);
    plan.limits.cpu_milli = 50;
    CHECK_OK(jail_make(stage.warden, &plan, &stage.jail, &err));
    stage_fork(&stage);
    /* They begin when all are there and the cell has had the time to end. */
    run(&stage, "import os, time\nwait, go = os.pipe()\nfor _ in range(100):\n"
                "    if os.fork() == 0:\n        os.close(go); os.read(wait, 1); time.sleep(1)\n"
                "        while True: pass\nos.close(go)");
    CHECK(stage.ok);
    /* Until they use all the processor time that the jail has: 50 ms in each second. */
    struct jail_stats before, stats = {0};
    CHECK_OK(jail_stat(stage.jail, &before, &err));
    while (stats.cpu_us - before.cpu_us < 100000) {
        (void)usleep(20000);
        CHECK_OK(jail_stat(stage.jail, &stats, &err));
    }
    /* One may be late because the machine is busy. If it waited for the slow one, all would be. */
    bool is_first = false;
    for (int i = 0; i < 10 && !is_first; i++)
        is_first = is_before_slow(&stage);
    CHECK(is_first);
}

/* Ending a sandbox in the middle of a fork does not end the zygote of others. */
TEST(res_the_zygote_outlives_jails_that_end_while_it_forks_into_them)
{
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    for (unsigned i = 0; i < 200; i++) {
        struct err err = {0};
        uint32_t ids[2];
        struct jail *jail = NULL;
        struct jail_plan plan = stage_plan(stage.warden);
        CHECK_OK(jail_make(stage.warden, &plan, &jail, &err));
        struct interpreter *interpreters[] = {ask(jail, &ids[0]), ask(jail, &ids[1])};
        (void)usleep(i * 20);
        if (i % 2 == 0) /* as the engine does: it does not wait for the end */
            CHECK_OK(jail_ask_end(jail, &ids[0], &err));
        jail = jail_free(jail);
        (void)interpreter_free(interpreters[0]);
        (void)interpreter_free(interpreters[1]);
    }
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage);
    CHECK_INT(stage_zygote_pid(&stage), zygote);
}

/* Nothing in a jail can stop it; if it is stopped, it is replaced. */
TEST(a_zygote_that_is_stopped_is_replaced)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0}, other = {0};
    uint32_t id;
    struct jail_event event;
    stage_zygote(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    join(&other, &stage);
    CHECK_INT(kill(stage_zygote_pid(&stage), SIGSTOP), 0);
    struct interpreter *interpreters[] = {ask(stage.jail, &id), ask(other.jail, &(uint32_t){0})};
    int64_t began = clock_now_ms();
    other.jail = jail_free(other.jail); /* it ends, though a fork into it is under way */
    CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
    CHECK_INT(event.type, JAIL_EVENT_REFUSED);
    CHECK_INT(event.err.code, ERR_UNAVAILABLE);
    CHECK(clock_now_ms() - began < 120000);
    CHECK_OK(jail_freeze(stage.jail, true, &err)); /* nobody is about to enter it any more */
    CHECK_OK(jail_freeze(stage.jail, false, &err));
    (void)interpreter_free(interpreters[0]);
    (void)interpreter_free(interpreters[1]);
    stage_fork_again(&stage);
}

/* Marks of commands come round (jail/wire/oom_tag.h): the end of one is not that of the one that
 * forks for another that has its mark. */
TEST(res_the_end_of_a_command_is_not_that_of_the_zygote)
{
    AUTO_STAGE struct stage stage = {0};
    const char *argv[] = {"/bin/sleep", "1000", NULL};
    stage_zygote(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    for (unsigned i = 0; i < 60; i++) {
        struct err err = {0};
        uint32_t first, id, request;
        struct jail_event event;
        struct warden_event answer;
        AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        CHECK_OK(jail_start(stage.jail, &(struct jail_command){.argv = argv},
                            (int[]){null, null, null}, &first, NULL, &err));
        for (id = first; id < first + OOM_TAG_COUNT - 1;) {
            CHECK_OK(jail_ask_signal(stage.jail, first, 0, &id, &err));
            CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
        }
        struct interpreter *interpreter = ask(stage.jail, &id);
        CHECK_INT(id, first + OOM_TAG_COUNT);
        (void)usleep(i * 30);
        CHECK_OK(jail_ask_kill(stage.jail, first, &request, &err));
        CHECK_OK(warden_await(stage.jail->warden, request, &answer, &err));
        CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
        (void)interpreter_free(interpreter);
        CHECK_INT(stage_zygote_pid(&stage), zygote);
    }
}
