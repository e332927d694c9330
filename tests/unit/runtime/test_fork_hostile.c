/* Tenants that would have the template, which all of them share, wait or die for theirs. */

#include "stage.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

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
    run(&stage, "import os, time\nat = time.monotonic() + 3\nfor _ in range(100):\n"
                "    if os.fork() == 0:\n        time.sleep(max(at - time.monotonic(), 0))\n"
                "        while True: pass");
    CHECK(stage.ok);
    (void)sleep(4);
    struct kernel *slow = ask(stage.jail, &id);
    int64_t began = clock_now_ms();
    join(&other, &stage);
    CHECK(clock_now_ms() - began < 3000);
    slow = kernel_free(slow);
}
