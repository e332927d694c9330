#include "io/proc.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sys.h"
#include "test.h"

struct seen {
    int calls;
    struct proc_exit how;
};

static void on_exit_seen(void *ctx, struct proc_exit how)
{
    struct seen *seen = ctx;
    seen->calls++;
    seen->how = how;
}

/* Runs a script to its end; `out` gets what it printed. */
static struct seen run(struct loop *loop, struct proc_options options, const char *script,
                       struct buf *out)
{
    struct err err = {0};
    const char *const argv[] = {"sh", "-c", script, NULL};
    options.program = "/bin/sh";
    options.argv = argv;
    options.out = PROC_PIPE;
    struct seen seen = {0};
    struct proc *proc = NULL;
    CHECK_OK(proc_start(loop, &options, on_exit_seen, &seen, &proc, &err));
    int fd = proc_take_pipe(proc, 1);
    CHECK(fd >= 0);
    CHECK_INT(proc_take_pipe(proc, 1), -1);
    CHECK_OK(buf_read_all(out, fd, &err));
    (void)close(fd);
    loop_run(loop);
    CHECK_INT(seen.calls, 1);
    proc = proc_free(proc);
    return seen;
}

TEST(child_gets_its_arguments_environment_and_directory)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    const char *const env[] = {"COLOUR=blue", NULL};
    AUTO_BUF struct buf out = {0};
    struct seen seen = run(loop, (struct proc_options){.env = env, .cwd = "/"},
                           "echo $COLOUR $HOME; pwd; exit 7", &out);
    CHECK_STR(buf_str(&out), "blue\n/\n");
    CHECK_INT(seen.how.code, 7);
    CHECK_INT(seen.how.signal, 0);
}

TEST(child_inherits_only_the_named_descriptors)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    int careless = open("/dev/null", O_RDONLY); /* not CLOEXEC: a library's mistake */
    int pipe_ends[2];
    CHECK_INT(pipe2(pipe_ends, O_CLOEXEC), 0);
    /* Swapped numbers: each target is the other's source. */
    struct proc_fd fds[] = {{pipe_ends[0], pipe_ends[1]}, {pipe_ends[1], pipe_ends[0]}};
    char script[256];
    (void)snprintf(script, sizeof script,
                   "cd /proc/self/fd; for fd in 0 1 2 %d %d; do [ -e $fd ] || exit 9; done; "
                   "[ -e %d ] && exit 8; set -- *; echo $#; echo hi >/proc/self/fd/%d",
                   pipe_ends[0], pipe_ends[1], careless, pipe_ends[0]);
    AUTO_BUF struct buf out = {0};
    struct seen seen = run(loop, (struct proc_options){.fds = fds, .fd_count = 2}, script, &out);
    CHECK_INT(seen.how.code, 0);
    /* The sixth is the shell's own handle on the directory it lists. */
    CHECK_STR(buf_str(&out), "6\n");
    char bytes[4];
    CHECK_INT(read(pipe_ends[0], bytes, sizeof bytes), 3);
    (void)close(careless);
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
}

static const char *const sleeper[] = {"sh", "-c", "echo $$; exec sleep 60", NULL};

static int told_pid(struct proc *proc)
{
    char text[32] = "";
    int fd = proc_take_pipe(proc, 1);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    int64_t pid = 0;
    CHECK(str_to_i64(str_trim(str_of(text)), 1, INT32_MAX, &pid));
    return (int)pid;
}

TEST(a_signal_and_a_kill_are_distinguished_from_an_exit)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {0};
    struct proc *proc = NULL;
    struct proc_options options = {
        .program = "/bin/sh", .argv = sleeper, .out = PROC_PIPE, .new_session = true};
    CHECK_OK(proc_start(loop, &options, on_exit_seen, &seen, &proc, &err));
    int pid = told_pid(proc);
    CHECK_INT(getsid(pid), pid);
    proc_kill(proc, SIGTERM);
    loop_run(loop);
    CHECK_INT(seen.how.code, -1);
    CHECK_INT(seen.how.signal, SIGTERM);
    proc_kill(proc, SIGTERM); /* after the end: nothing */
    proc = proc_free(proc);
}

TEST(free_ends_a_running_child)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {0};
    struct proc *proc = NULL;
    struct proc_options options = {.program = "/bin/sh", .argv = sleeper, .out = PROC_PIPE};
    CHECK_OK(proc_start(loop, &options, on_exit_seen, &seen, &proc, &err));
    int pid = told_pid(proc);
    proc = proc_free(proc);
    CHECK(kill(pid, 0) < 0);
    CHECK_INT(seen.calls, 0);
}

TEST(blocked_and_ignored_signals_are_not_inherited)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    (void)signal(SIGPIPE, SIG_IGN);
    AUTO_BUF struct buf out = {0};
    struct seen seen = run(loop, (struct proc_options){0}, "kill -PIPE $$", &out);
    CHECK_INT(seen.how.signal, SIGPIPE);
}

TEST(what_cannot_start_says_why)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    int before = test_open_fds();
    const char *const argv[] = {"x", NULL};
    struct proc *proc = NULL;
    struct proc_options options = {.program = "/no/such/program", .argv = argv, .out = PROC_PIPE};
    CHECK_ERR(proc_start(loop, &options, on_exit_seen, NULL, &proc, &err), ERR_NOT_FOUND);
    CHECK_MSG("/no/such/program");
    options = (struct proc_options){.program = "/bin/true", .argv = argv, .cwd = "/no/dir"};
    CHECK_ERR(proc_start(loop, &options, on_exit_seen, NULL, &proc, &err), ERR_NOT_FOUND);
    CHECK_MSG("enter '/no/dir'");
    CHECK_INT(test_open_fds(), before);
}

#ifdef SG_FAULTS
TEST(each_failing_call_leaves_no_child_and_no_descriptor)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    int before = test_open_fds();
    const char *const argv[] = {"true", NULL};
    for (int n = 1;; n++) {
        struct seen seen = {0};
        struct proc *proc = NULL;
        struct proc_fd fds[] = {{0, 3}};
        struct proc_options options = {.program = "/bin/true",
                                       .argv = argv,
                                       .in = PROC_PIPE,
                                       .err = PROC_INHERIT,
                                       .fds = fds,
                                       .fd_count = 1};
        (void)sys_fail_at(n);
        int done = proc_start(loop, &options, on_exit_seen, &seen, &proc, &err);
        int64_t calls = sys_fail_at(0);
        if (done == 0)
            loop_run(loop);
        proc = proc_free(proc);
        (void)loop_step(loop);
        CHECK_INT(test_open_fds(), before);
        if (calls < n) {
            CHECK_INT(seen.how.code, 0);
            CHECK(n > 6);
            return;
        }
        CHECK(done < 0);
    }
}
#endif

TEST(run_waits_without_a_loop)
{
    struct err err = {0};
    struct proc_exit how = {0};
    static const char *const ends[] = {"sh", "-c", "exit 3", NULL};
    static const char *const sleeps[] = {"sleep", "1000", NULL};
    struct proc_options options = {.program = "/bin/sh", .argv = ends};
    CHECK_OK(proc_run(&options, 60000, NULL, &how, &err));
    CHECK_INT(how.code, 3);
    options = (struct proc_options){.program = "/bin/sleep", .argv = sleeps};
    how.code = 77;
    CHECK_ERR(proc_run(&options, 50, NULL, &how, &err), ERR_TIMEOUT);
    atomic_bool stop = true;
    CHECK_ERR(proc_run(&options, 60000, &stop, &how, &err), ERR_CANCELED);
    CHECK_INT(how.code, 77);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* none is left behind */
    options.program = "/does/not/exist";
    CHECK_ERR(proc_run(&options, 60000, NULL, &how, &err), ERR_NOT_FOUND);
}
