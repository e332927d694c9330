#include "io/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

struct proc {
    struct loop *loop;
    pid_t pid;
    int pidfd;
    struct watch *watch;
    bool running;
    int pipes[3];
    void (*on_exit)(void *ctx, struct proc_exit how);
    void *ctx;
};

/* Descriptors on their way into the child: copies with high numbers, so that putting one in its
 * place cannot overwrite another that still waits. */
enum { SAFE_FD = 3 + PROC_FDS_MAX * 4 };
struct plan {
    int copy[3 + PROC_FDS_MAX];
    int target[3 + PROC_FDS_MAX];
    size_t count;
};

static void plan_done(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        fd_close(&plan->copy[i]);
}

static int plan_add(struct plan *plan, int fd, int target, struct err *err)
{
    int copy = SYS(fcntl(fd, F_DUPFD_CLOEXEC, SAFE_FD));
    if (copy < 0)
        return err_sys(err, errno, "copy descriptor %d", fd);
    plan->copy[plan->count] = copy;
    plan->target[plan->count++] = target;
    return 0;
}

static int plan_pipe(struct plan *plan, int which, int *ret_ours, struct err *err)
{
    int ends[2];
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "pipe");
    AUTO_CLOSE int ours = ends[which == 0 ? 1 : 0];
    AUTO_CLOSE int childs = ends[which == 0 ? 0 : 1];
    if (plan_add(plan, childs, which, err) < 0)
        return -1;
    *ret_ours = fd_take(&ours);
    return 0;
}

static int plan_null(struct plan *plan, int which, struct err *err)
{
    AUTO_CLOSE int fd = SYS(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '/dev/null'");
    return plan_add(plan, fd, which, err);
}

static int plan_all(struct plan *plan, const struct proc_options *options, struct proc *proc,
                    struct err *err)
{
    const enum proc_end ends[3] = {options->in, options->out, options->err};
    for (int i = 0; i < 3; i++) {
        int done = ends[i] == PROC_PIPE      ? plan_pipe(plan, i, &proc->pipes[i], err)
                   : ends[i] == PROC_INHERIT ? plan_add(plan, i, i, err)
                                             : plan_null(plan, i, err);
        if (done < 0)
            return -1;
    }
    assert(options->fd_count <= PROC_FDS_MAX);
    for (size_t i = 0; i < options->fd_count; i++) {
        assert(options->fds[i].childs > 2 && options->fds[i].childs < SAFE_FD);
        if (plan_add(plan, options->fds[i].ours, options->fds[i].childs, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_target(const struct plan *plan, int fd)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->target[i] == fd)
            return true;
    return false;
}

/* These calls fail only when memory runs out. */
static void must(int code)
{
    assert(code == 0);
}

static void fill_actions(posix_spawn_file_actions_t *actions, const struct plan *plan,
                         const char *cwd)
{
    must(posix_spawn_file_actions_init(actions));
    for (size_t i = 0; i < plan->count; i++)
        must(posix_spawn_file_actions_adddup2(actions, plan->copy[i], plan->target[i]));
    for (int fd = 3; fd < SAFE_FD; fd++)
        if (!is_target(plan, fd))
            must(posix_spawn_file_actions_addclose(actions, fd));
    must(posix_spawn_file_actions_addclosefrom_np(actions, SAFE_FD));
    if (cwd != NULL)
        must(posix_spawn_file_actions_addchdir_np(actions, cwd));
}

static void fill_attributes(posix_spawnattr_t *attributes, bool new_session)
{
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    must(posix_spawnattr_init(attributes));
    must(posix_spawnattr_setsigdefault(attributes, &all));
    must(posix_spawnattr_setsigmask(attributes, &none));
    int flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (new_session)
        flags |= POSIX_SPAWN_SETSID;
    must(posix_spawnattr_setflags(attributes, (short)flags));
}

/* posix_spawn shares our memory until the exec instead of copying page tables, and tells us when
 * the exec failed. */
static int spawn(const struct proc_options *options, const struct plan *plan, pid_t *ret_pid,
                 struct err *err)
{
    static const char *const empty[] = {NULL};
    const char *const *env = options->env == NULL ? empty : options->env;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    fill_actions(&actions, plan, options->cwd);
    fill_attributes(&attributes, options->new_session);
    int code = SYS(posix_spawn(ret_pid, options->program, &actions, &attributes,
                               (char *const *)options->argv, (char *const *)env));
    must(posix_spawn_file_actions_destroy(&actions));
    must(posix_spawnattr_destroy(&attributes));
    if (code == 0)
        return 0;
    code = code < 0 ? errno : code;
    if (options->cwd != NULL && access(options->cwd, X_OK) < 0)
        return err_sys(err, errno, "enter '%s'", options->cwd);
    return err_sys(err, code, "start '%s'", options->program);
}

static struct proc_exit proc_reap(struct proc *proc)
{
    siginfo_t info = {0};
    /* Watching made the pidfd non-blocking, and then waitid does not wait. */
    struct pollfd ended = {.fd = proc->pidfd, .events = POLLIN};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        continue;
    int done = waitid(P_PIDFD, (id_t)proc->pidfd, &info, WEXITED);
    proc->running = false;
    if (done == 0 && info.si_code == CLD_EXITED)
        return (struct proc_exit){.code = info.si_status};
    return (struct proc_exit){.code = -1, .signal = done == 0 ? info.si_status : SIGKILL};
}

static void on_pidfd(void *ctx, UNUSED int events)
{
    struct proc *proc = ctx;
    proc->watch = watch_free(proc->watch);
    struct proc_exit how = proc_reap(proc);
    proc->on_exit(proc->ctx, how); /* may free proc */
}

/* The pid cannot have been reused: only this process reaps the child, and later. */
static int proc_open_pidfd(struct proc *proc, struct err *err)
{
    proc->pidfd = SYS(pidfd_open(proc->pid, 0));
    return proc->pidfd < 0 ? err_sys(err, errno, "open the pidfd of %d", proc->pid) : 0;
}

static int adopt(struct proc *proc, struct err *err)
{
    if (proc_open_pidfd(proc, err) < 0)
        return -1;
    return watch_new(proc->loop, proc->pidfd, WATCH_READ, on_pidfd, proc, &proc->watch, err);
}

static void abandon(struct proc *proc)
{
    (void)kill(proc->pid, SIGKILL);
    while (waitpid(proc->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    proc->running = false;
}

int proc_start(struct loop *loop, const struct proc_options *options,
               void (*on_exit)(void *ctx, struct proc_exit how), void *ctx, struct proc **ret_proc,
               struct err *err)
{
    loop_assert(loop);
    struct proc *proc = mem_alloc(sizeof *proc);
    *proc = (struct proc){
        .loop = loop, .pidfd = -1, .pipes = {-1, -1, -1}, .on_exit = on_exit, .ctx = ctx};
    AUTO(plan_done) struct plan plan = {0};
    if (plan_all(&plan, options, proc, err) < 0 || spawn(options, &plan, &proc->pid, err) < 0) {
        (void)proc_free(proc);
        return -1;
    }
    proc->running = true;
    if (adopt(proc, err) < 0) {
        abandon(proc);
        (void)proc_free(proc);
        return -1;
    }
    *ret_proc = proc;
    return 0;
}

struct proc *proc_free(struct proc *proc)
{
    if (proc == NULL)
        return NULL;
    loop_assert(proc->loop);
    proc->watch = watch_free(proc->watch);
    if (proc->running) {
        proc_kill(proc, SIGKILL);
        (void)proc_reap(proc);
    }
    fd_close(&proc->pidfd);
    for (int i = 0; i < 3; i++)
        fd_close(&proc->pipes[i]);
    free(proc);
    return NULL;
}

void proc_kill(struct proc *proc, int signo)
{
    if (proc->running)
        (void)pidfd_send_signal(proc->pidfd, signo, NULL, 0);
}

int proc_take_pipe(struct proc *proc, int which)
{
    assert(which >= 0 && which < 3);
    return fd_take(&proc->pipes[which]);
}

/* --- Without a loop --- */

enum { STOP_LOOK_MS = 100 };

static int await_end(const struct proc *proc, int64_t timeout_ms, const atomic_bool *stop,
                     struct err *err)
{
    int64_t until_ms = clock_boot_ms() + timeout_ms;
    struct pollfd ended = {.fd = proc->pidfd, .events = POLLIN};
    for (;;) {
        int64_t left_ms = until_ms - clock_boot_ms();
        if (stop != NULL && atomic_load(stop))
            return err_set(err, ERR_CANCELED, "the server is stopping");
        if (left_ms <= 0)
            return err_set(err, ERR_TIMEOUT, "it took more than %lld s",
                           (long long)(timeout_ms / 1000));
        int got = poll(&ended, 1, (int)MIN(left_ms, (int64_t)STOP_LOOK_MS));
        if (got > 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for a process");
    }
}

int proc_run(const struct proc_options *options, int64_t timeout_ms, const atomic_bool *stop,
             struct proc_exit *ret_exit, struct err *err)
{
    struct proc proc = {.pidfd = -1, .pipes = {-1, -1, -1}};
    AUTO(plan_done) struct plan plan = {0};
    assert(options->in != PROC_PIPE && options->out != PROC_PIPE && options->err != PROC_PIPE);
    if (plan_all(&plan, options, &proc, err) < 0 || spawn(options, &plan, &proc.pid, err) < 0)
        return -1;
    if (proc_open_pidfd(&proc, err) < 0) {
        abandon(&proc);
        return -1;
    }
    int result = await_end(&proc, timeout_ms, stop, err);
    if (result < 0)
        (void)kill(proc.pid, SIGKILL); /* not reaped yet: the number is still its own */
    struct proc_exit how = proc_reap(&proc);
    fd_close(&proc.pidfd);
    if (result == 0)
        *ret_exit = how;
    return result;
}
