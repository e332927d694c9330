#include "stage.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "waiting.h"

#ifndef STAGE_FORKED
#define STAGE_FORKED 0
#endif

void stage_close(struct stage *stage)
{
    stage->interpreter = interpreter_free(stage->interpreter);
    stage->jail = jail_free(stage->jail);
    if (!stage->borrows_warden)
        stage->warden = warden_free(stage->warden);
    buf_done(&stage->out);
    buf_done(&stage->err_out);
    buf_done(&stage->shown);
    buf_done(&stage->error);
}
static void take(struct stage *stage, const struct interpreter_event *event)
{
    if (event->type == INTERPRETER_STDOUT)
        buf_put(&stage->out, event->text);
    if (event->type == INTERPRETER_STDERR)
        buf_put(&stage->err_out, event->text);
    for (size_t i = 0; event->type == INTERPRETER_DISPLAY && i < event->part_count; i++)
        buf_printf(&stage->shown, "%.*s: %.*s\n", STR_ARG(event->parts[i].mime),
                   STR_ARG(event->parts[i].bytes));
    if (event->type == INTERPRETER_ERROR)
        buf_printf(&stage->error, "%.*s|%.*s|%.*s|%.*s", STR_ARG(event->name),
                   STR_ARG(event->message), STR_ARG(event->module), STR_ARG(event->text));
}

/* Events up to one of these two types. */
void until(struct stage *stage, enum interpreter_event_type end)
{
    struct interpreter_event event;
    for (;;) {
        while (interpreter_next(stage->interpreter, &event)) {
            take(stage, &event);
            stage->ok = event.ok;
            stage->gone = event.type == INTERPRETER_GONE;
            if (event.type == end || stage->gone)
                return;
        }
        int fds[3];
        interpreter_fds(stage->interpreter, fds);
        struct pollfd polled[3];
        for (int i = 0; i < 3; i++)
            polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        CHECK(poll(polled, 3, 120000) > 0);
    }
}

/* Where the programs of the interpreters are; the build's, unless another user runs the test. */
static const char *interpreters(void)
{
    const char *dir = getenv("SG_KERNELS_COPY");
    return dir != NULL ? dir : SG_KERNELS;
}

struct jail_plan stage_plan(struct warden_link *warden)
{
    struct jail_plan plan = {.mounts = {{.src = interpreters(), .dst = "/opt/kernel"}},
                             .mount_count = 1};
    const struct jail_host *host = warden_host(warden);
    if (host->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

int stage_program(void)
{
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/kernel-python", interpreters());
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&bytes, file, &err));
    int fd = memfd_create("kernel", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(fd_write_all(fd, buf_str(&bytes), &err));
    return fd;
}

void stage_zygote(struct stage *stage, const char *names)
{
    struct err err = {0};
    char missing[96];
    AUTO_CLOSE int program = stage_program();
    CHECK_OK(warden_start(&stage->warden, &err));
    CHECK_OK(warden_zygote(stage->warden, program, names, missing, &err));
    CHECK_CSTR(missing, "");
}

void stage_jail(struct stage *stage)
{
    struct err err = {0};
    struct jail_plan plan = stage_plan(stage->warden);
    CHECK_OK(jail_make(stage->warden, &plan, &stage->jail, &err));
}

size_t stage_children(pid_t parent, const char *called, pid_t *ret_pids, size_t most)
{
    size_t count = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir != NULL && count < most && (entry = readdir(dir)) != NULL) {
        char path[300], text[256] = "", state;
        int its_parent = 0;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
            continue;
        const char *name = strstr(text, called);
        if (name != NULL && sscanf(name + strlen(called), ") %c %d", &state, &its_parent) == 2 &&
            its_parent == parent && state != 'Z')
            ret_pids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

pid_t stage_zygote_pid(const struct stage *stage)
{
    pid_t found = -1;
    CHECK_INT(stage_children(warden_pid(stage->warden), "(zygote", &found, 1), 1);
    return found;
}

static void start(struct stage *stage, bool forked)
{
    struct err err = {0};
    int inner[3];
    const char *argv[] = {"/opt/kernel/kernel-python", "json", NULL};
    struct jail_command command = {.argv = argv, .env = stage->env};
    CHECK_OK(interpreter_open(&stage->interpreter, inner, &err));
    if (forked)
        CHECK_OK(jail_fork(stage->jail, &command, inner, &stage->id, &err));
    else
        CHECK_OK(jail_start(stage->jail, &command, inner, &stage->id, NULL, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    until(stage, INTERPRETER_READY);
    CHECK(!stage->gone);
}

void stage_fork(struct stage *stage)
{
    start(stage, true);
}

void stage_fork_again(struct stage *stage)
{
    for (int tries = 0; tries < 1200; tries++) {
        struct err err = {0};
        int inner[3];
        stage->interpreter = interpreter_free(stage->interpreter);
        CHECK_OK(interpreter_open(&stage->interpreter, inner, &err));
        int done = jail_fork(stage->jail, &(struct jail_command){0}, inner, &stage->id, &err);
        for (int i = 0; i < 3; i++)
            fd_close(&inner[i]);
        if (done == 0) {
            until(stage, INTERPRETER_READY);
            if (!stage->gone)
                return;
        } else {
            CHECK_INT(err.code, ERR_UNAVAILABLE);
        }
        (void)usleep(100000);
    }
    fail_msg("no zygote came back");
}

void stage_open(struct stage *stage)
{
    struct err err = {0};
    if (STAGE_FORKED)
        stage_zygote(stage, "json");
    else
        CHECK_OK(warden_start(&stage->warden, &err));
    stage_jail(stage);
    start(stage, STAGE_FORKED);
}

void run(struct stage *stage, const char *code)
{
    struct err err = {0};
    buf_clear(&stage->out);
    buf_clear(&stage->err_out);
    buf_clear(&stage->shown);
    buf_clear(&stage->error);
    CHECK_OK(
        interpreter_run(stage->interpreter, str_of(code), STR("python"), (struct str){0}, &err));
    until(stage, INTERPRETER_DONE);
}
