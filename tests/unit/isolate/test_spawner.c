#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "isolate/spawner/spawner.h"

/* Workers from the spawner. */

enum { WAIT_MS = 5000 };

static void run(struct worker *worker, uint32_t isolate, const char *code, const char *json)
{
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = str_of(code), .is_session = isolate != 0};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, isolate, &limits, &call, NULL, &result, &err));
    CHECK_CSTR(buf_cstr(&result.json), json);
}

static struct worker *next(struct spawner *spawner)
{
    struct err err = {0};
    struct worker *worker = NULL;
    struct pollfd poller = {.fd = spawner_fd(spawner), .events = POLLIN};
    CHECK_OK(spawner_ask(spawner, &err));
    CHECK_INT(poll(&poller, 1, WAIT_MS), 1);
    CHECK_INT(spawner_next(spawner, &worker, &err), 1);
    return worker;
}

static bool has_line(int pid, const char *file, const char *wanted)
{
    char path[64], line[256];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    FILE *text = fopen(path, "re");
    CHECK(text != NULL);
    while (fgets(line, sizeof line, text) != NULL)
        found = found || strcmp(line, wanted) == 0;
    (void)fclose(text);
    return found;
}

TEST(spawner_makes_locked_workers_without_privileges)
{
    struct err err = {0};
    AUTO_SPAWNER struct spawner *spawner = NULL;
    CHECK_OK(spawner_start(&(struct spawner_options){0}, &spawner, &err));
    AUTO_WORKER struct worker *worker = next(spawner);
    run(worker, 0, "'ready'", "\"ready\"");
    int pids[] = {spawner_pid(spawner), worker_pid(worker)};
    for (size_t i = 0; i < countof(pids); i++) {
        CHECK(has_line(pids[i], "status", "CapEff:\t0000000000000000\n"));
        CHECK(has_line(pids[i], "status", "CapBnd:\t0000000000000000\n") || geteuid() != 0);
        CHECK(has_line(pids[i], "status", "NoNewPrivs:\t1\n"));
        CHECK(has_line(pids[i], "status", "Threads:\t1\n"));
        if (geteuid() == 0)
            CHECK(!has_line(pids[i], "status", "Uid:\t0\t0\t0\t0\n"));
    }
    CHECK(has_line(pids[1], "status", "Seccomp:\t2\n"));
}

TEST(spawner_workers_draw_their_own_numbers)
{
    struct err err = {0};
    AUTO_SPAWNER struct spawner *spawner = NULL;
    CHECK_OK(spawner_start(&(struct spawner_options){0}, &spawner, &err));
    AUTO_BUF struct buf seen = {0};
    for (int i = 0; i < 4; i++) {
        AUTO_WORKER struct worker *worker = next(spawner);
        struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
        struct isolate_call call = {.code = STR("Math.random()")};
        AUTO_RESULT struct isolate_result result = {0};
        CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
        CHECK(str_find(buf_str(&seen), buf_str(&result.json)) == seen.len);
        buf_put(&seen, buf_str(&result.json));
    }
}

TEST(spawner_death_ends_its_workers)
{
    struct err err = {0};
    AUTO_SPAWNER struct spawner *spawner = NULL;
    CHECK_OK(spawner_start(&(struct spawner_options){0}, &spawner, &err));
    AUTO_WORKER struct worker *worker = next(spawner);
    run(worker, 0, "1", "1");
    CHECK_INT(kill(spawner_pid(spawner), SIGKILL), 0);
    struct pollfd poller = {.fd = worker_fd(worker), .events = POLLIN};
    CHECK_INT(poll(&poller, 1, WAIT_MS), 1);
    CHECK(worker_has_gone(worker));
    struct worker *none = NULL;
    CHECK_ERR(spawner_next(spawner, &none, &err), ERR_UNAVAILABLE);
}

/* As the daemon does it: the program executes itself. */
TEST(spawner_is_the_program_itself)
{
    struct err err = {0};
    const char *program = getenv("SANDGLASS_BIN");
    if (program == NULL)
        SKIP("SANDGLASS_BIN names no sandglass");
    static const char *const bridges[] = {"echo", "other", NULL};
    AUTO_SPAWNER struct spawner *spawner = NULL;
    CHECK_OK(spawner_start(&(struct spawner_options){.program = program, .bridges = bridges},
                           &spawner, &err));
    AUTO_WORKER struct worker *worker = next(spawner);
    run(worker, 0, "Object.getOwnPropertyNames(api).join()", "\"echo,other\"");
}
