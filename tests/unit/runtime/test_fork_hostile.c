/* Tenants that would have the template, which all of them share, wait or die for theirs. */

#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/client.h"
#include "jail/marked.h"

/* A kernel that is asked for; nobody waits for it. */
static struct kernel *ask(struct jail *jail, uint32_t *ret_id)
{
    struct err err = {0};
    struct kernel *kernel = NULL;
    int inner[3];
    CHECK_OK(kernel_open(&kernel, inner, &err));
    CHECK_OK(jail_ask_fork(jail, &(struct jail_command){0}, inner, ret_id, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return kernel;
}

/* A kernel in a jail of its own. */
static void join(struct stage *stage, const struct stage *host)
{
    stage->warden = host->warden;
    stage->borrows_warden = true;
    stage_jail(stage);
    stage_fork(stage);
}

TEST(res11_a_jail_without_processor_time_does_not_hold_up_the_template)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0}, other = {0};
    uint32_t id;
    stage_template(&stage, "json");
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
    (void)sleep(3);
    struct kernel *slow = ask(stage.jail, &id);
    int64_t began = clock_now_ms();
    join(&other, &stage);
    CHECK(clock_now_ms() - began < 3000);
    slow = kernel_free(slow);
}

/* Whoever ends a sandbox in the middle of a fork into it takes no other's template along. */
TEST(res_the_template_outlives_jails_that_end_while_it_forks_into_them)
{
    AUTO_STAGE struct stage stage = {0};
    stage_template(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    pid_t template = stage_template_pid(&stage);
    for (unsigned i = 0; i < 200; i++) {
        struct err err = {0};
        uint32_t ids[2];
        struct jail *jail = NULL;
        struct jail_plan plan = stage_plan(stage.warden);
        CHECK_OK(jail_make(stage.warden, &plan, &jail, &err));
        struct kernel *kernels[] = {ask(jail, &ids[0]), ask(jail, &ids[1])};
        (void)usleep(i * 20);
        if (i % 2 == 0) /* as the engine does: it does not wait for the end */
            CHECK_OK(jail_ask_end(jail, &ids[0], &err));
        jail = jail_free(jail);
        (void)kernel_free(kernels[0]);
        (void)kernel_free(kernels[1]);
    }
    stage.kernel = kernel_free(stage.kernel);
    stage_fork(&stage);
    CHECK_INT(stage_template_pid(&stage), template);
}

/* Nothing of a jail can make it stand still; if anything does, all go on without it. */
TEST(a_template_that_stands_still_is_replaced)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0}, other = {0};
    uint32_t id;
    struct jail_event event;
    stage_template(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    join(&other, &stage);
    CHECK_INT(kill(stage_template_pid(&stage), SIGSTOP), 0);
    struct kernel *kernels[] = {ask(stage.jail, &id), ask(other.jail, &(uint32_t){0})};
    int64_t began = clock_now_ms();
    other.jail = jail_free(other.jail); /* it ends, though a fork into it is under way */
    CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
    CHECK_INT(event.type, JAIL_EVENT_REFUSED);
    CHECK_INT(event.err.code, ERR_UNAVAILABLE);
    CHECK(clock_now_ms() - began < 20000);
    CHECK_OK(jail_freeze(stage.jail, true, &err)); /* nobody is about to enter it any more */
    CHECK_OK(jail_freeze(stage.jail, false, &err));
    (void)kernel_free(kernels[0]);
    (void)kernel_free(kernels[1]);
    stage_fork_again(&stage);
}

/* Marks of commands come round (jail/marked.h): the end of one is not that of whoever forks for
 * another that has its mark. */
TEST(res_the_end_of_a_command_is_not_that_of_the_template)
{
    AUTO_STAGE struct stage stage = {0};
    const char *argv[] = {"/bin/sleep", "1000", NULL};
    stage_template(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    pid_t template = stage_template_pid(&stage);
    for (unsigned i = 0; i < 60; i++) {
        struct err err = {0};
        uint32_t first, id, request;
        struct jail_event event;
        struct warden_event answer;
        AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        CHECK_OK(jail_start(stage.jail, &(struct jail_command){.argv = argv},
                            (int[]){null, null, null}, &first, NULL, &err));
        for (id = first; id < first + MARKS_COUNT - 1;) {
            CHECK_OK(jail_ask_signal(stage.jail, first, 0, &id, &err));
            CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
        }
        struct kernel *kernel = ask(stage.jail, &id);
        CHECK_INT(id, first + MARKS_COUNT);
        (void)usleep(i * 30);
        CHECK_OK(jail_ask_kill(stage.jail, first, &request, &err));
        CHECK_OK(warden_await(stage.jail->warden, request, &answer, &err));
        CHECK_OK(jail_await_answer(stage.jail, id, &event, &err));
        (void)kernel_free(kernel);
        CHECK_INT(stage_template_pid(&stage), template);
    }
}
