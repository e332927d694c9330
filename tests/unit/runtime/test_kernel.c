/* Interpreters in real jails: what they say, in which order, and what becomes of them. Runs twice:
 * with interpreters that are executed, and with those that are forked from a zygote. */

#include "stage.h"

#include <signal.h>

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

TEST(an_error_has_only_the_users_lines)
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
    CHECK_OK(interpreter_run(stage.interpreter,
                             STR("import time\nprint('on')\nwhile True: time.sleep(0.01)"),
                             STR("python"), (struct str){0}, &err));
    until(&stage, INTERPRETER_STDOUT);
    CHECK_ERR(interpreter_run(stage.interpreter, STR("1"), STR("python"), (struct str){0}, &err),
              ERR_BUSY);
    CHECK_OK(jail_signal(stage.jail, stage.id, SIGINT, &err));
    until(&stage, INTERPRETER_DONE);
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
    run(&stage, "exit()"); /* ends only the run, not the interpreter */
    CHECK(!stage.ok && !stage.gone);
    run(&stage, "import os\nprint('last words', flush=True)\nos._exit(3)");
    CHECK(stage.gone);
    CHECK_CSTR(buf_cstr(&stage.out), "last words\n");
    CHECK_ERR(interpreter_run(stage.interpreter, STR("1"), STR("python"), (struct str){0}, &err),
              ERR_GONE);
}
