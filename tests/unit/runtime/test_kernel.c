/* Kernels in real jails: what they say, in which order, and what becomes of them. */

#include "test.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/jail.h"
#include "runtime/kernel.h"

struct stage {
    struct warden_link *warden;
    struct jail *jail;
    struct kernel *kernel;
    uint32_t id;
    struct buf out, err_out, shown, error;
    bool ok, gone;
};

static void stage_close(struct stage *stage)
{
    stage->kernel = kernel_free(stage->kernel);
    stage->jail = jail_free(stage->jail);
    stage->warden = warden_free(stage->warden);
    buf_done(&stage->out);
    buf_done(&stage->err_out);
    buf_done(&stage->shown);
    buf_done(&stage->error);
}
#define AUTO_STAGE AUTO(stage_close)

static void take(struct stage *stage, const struct kernel_event *event)
{
    if (event->type == KERNEL_STDOUT)
        buf_put(&stage->out, event->text);
    if (event->type == KERNEL_STDERR)
        buf_put(&stage->err_out, event->text);
    for (size_t i = 0; event->type == KERNEL_DISPLAY && i < event->part_count; i++)
        buf_printf(&stage->shown, "%.*s: %.*s\n", STR_ARG(event->parts[i].mime),
                   STR_ARG(event->parts[i].bytes));
    if (event->type == KERNEL_ERROR)
        buf_printf(&stage->error, "%.*s|%.*s|%.*s|%.*s", STR_ARG(event->name),
                   STR_ARG(event->message), STR_ARG(event->module), STR_ARG(event->text));
}

/* Events up to one of these two types. */
static void until(struct stage *stage, enum kernel_event_type end)
{
    struct kernel_event event;
    for (;;) {
        while (kernel_next(stage->kernel, &event)) {
            take(stage, &event);
            stage->ok = event.ok;
            stage->gone = event.type == KERNEL_GONE;
            if (event.type == end || stage->gone)
                return;
        }
        int fds[3];
        kernel_fds(stage->kernel, fds);
        struct pollfd polled[3];
        for (int i = 0; i < 3; i++)
            polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        CHECK(poll(polled, 3, 30000) > 0);
    }
}

static void stage_open(struct stage *stage)
{
    struct err err = {0};
    int inner[3];
    const char *argv[] = {"/opt/kernel/kernel-python", "json", NULL};
    CHECK_OK(warden_start(&stage->warden, &err));
    struct jail_plan plan = {.mounts = {{.src = SG_KERNELS, .dst = "/opt/kernel"}},
                             .mount_count = 1};
    const struct jail_host *host = warden_host(stage->warden);
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    CHECK_OK(jail_make(stage->warden, &plan, &stage->jail, &err));
    CHECK_OK(kernel_open(&stage->kernel, inner, &err));
    CHECK_OK(jail_start(stage->jail, &(struct jail_command){.argv = argv}, inner, &stage->id, NULL,
                        &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    until(stage, KERNEL_READY);
    CHECK(!stage->gone);
}

static void run(struct stage *stage, const char *code)
{
    struct err err = {0};
    buf_clear(&stage->out);
    buf_clear(&stage->err_out);
    buf_clear(&stage->shown);
    buf_clear(&stage->error);
    CHECK_OK(kernel_run(stage->kernel, str_of(code), STR("python"), (struct str){0}, &err));
    until(stage, KERNEL_DONE);
}

TEST(names_stay_and_the_last_expression_is_shown)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    run(&stage, "x = 20");
    CHECK(stage.ok && stage.shown.len == 0);
    run(&stage, "x + 1");
    CHECK_CSTR(buf_cstr(&stage.shown), "text/plain: 21\napplication/json: 21\n");
}

TEST(output_comes_before_the_end)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    for (int i = 0; i < 50; i++) {
        run(&stage, "import os, sys\nprint('a' * 1000)\nprint('b', file=sys.stderr)\n"
                    "_ = os.system('echo c')");
        CHECK(stage.ok);
        CHECK_INT(stage.out.len, 1003);
        CHECK_CSTR(buf_cstr(&stage.err_out), "b\n");
    }
}

TEST(an_error_has_the_users_lines_alone)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    run(&stage, "def f():\n    return 1 / 0\nf()");
    CHECK(!stage.ok);
    CHECK_CSTR(buf_cstr(&stage.error),
               "ZeroDivisionError|division by zero||Traceback (most recent call last):\n"
               "  File \"<cell 1>\", line 3, in <module>\n    f()\n"
               "  File \"<cell 1>\", line 2, in f\n    return 1 / 0\n"
               "           ~~^~~\nZeroDivisionError: division by zero\n");
    run(&stage, "import no_such_module");
    CHECK(strstr(buf_cstr(&stage.error), "|no_such_module|") != NULL);
    run(&stage, "1 + 1");
    CHECK(stage.ok);
}

TEST(an_interrupt_keeps_the_names)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    run(&stage, "kept = 7");
    CHECK_OK(kernel_run(stage.kernel, STR("import time\nprint('on')\nwhile True: time.sleep(0.01)"),
                        STR("python"), (struct str){0}, &err));
    until(&stage, KERNEL_STDOUT);
    CHECK_ERR(kernel_run(stage.kernel, STR("1"), STR("python"), (struct str){0}, &err), ERR_BUSY);
    CHECK_OK(jail_signal(stage.jail, stage.id, SIGINT, &err));
    until(&stage, KERNEL_DONE);
    CHECK(!stage.ok && strstr(buf_cstr(&stage.error), "KeyboardInterrupt") != NULL);
    CHECK_OK(jail_signal(stage.jail, stage.id, SIGINT, &err)); /* idle: nothing to interrupt */
    run(&stage, "kept");
    CHECK(strstr(buf_cstr(&stage.shown), "text/plain: 7") != NULL);
}

TEST(a_kernel_that_is_ended_by_its_code_is_gone)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    run(&stage, "exit()"); /* that alone ends the run, not the kernel */
    CHECK(!stage.ok && !stage.gone);
    run(&stage, "import os\nprint('last words', flush=True)\nos._exit(3)");
    CHECK(stage.gone);
    CHECK_CSTR(buf_cstr(&stage.out), "last words\n");
    CHECK_ERR(kernel_run(stage.kernel, STR("1"), STR("python"), (struct str){0}, &err), ERR_GONE);
}
