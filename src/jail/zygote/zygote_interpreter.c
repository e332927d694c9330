/* How a prefork becomes an interpreter: the steps, in a fixed order; compare setup.c. */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/filter.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/mounts.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"
#include "jail/zygote/zygote_image.h"
#include "jail/zygote/zygote_internal.h"

/* The few that an interpreter has, at fixed numbers; 3 is the anchor for a moment. */
enum { ANCHOR_FD = 3, LINE_FD = 10, START_FD = 11 };

/* Not before: the zygote waits for who has made us, and would wait for the jail's processor time. A
 * full group refuses only forks, not processes that enter. */
static int enter_groups(const int fds[WIRE_FDS_MAX], struct err *err)
{
    for (int i = ZYGOTE_GROUPS; DEFENDED(CGROUPS) && i < WIRE_FDS_MAX && fds[i] >= 0; i++)
        if (SYS(write(fds[i], "0", 1)) < 0)
            return err_sys(err, errno, "enter a control group");
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return err_sys(err, errno, "fork the interpreter");
    (void)waitpid(pid, NULL, 0);
    return 0;
}

/* The namespace's root is what an overlay stands in; init lives in that. */
static int enter_root(bool is_anchored, int *ret_anchor, struct err *err)
{
    if (!is_anchored)
        return 0;
    AUTO_CLOSE int anchor = SYS(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (anchor < 0 || SYS(chroot(JAIL_ANCHOR_ROOT)) < 0 || SYS(chdir("/")) < 0)
        return err_sys(err, errno, "enter the root");
    *ret_anchor = fd_take(&anchor);
    return 0;
}

static int become_tenant(struct err *err)
{
    if (DEFENDED(TENANT) && (SYS(setresgid(JAIL_GID, JAIL_GID, JAIL_GID)) < 0 ||
                             SYS(setresuid(JAIL_UID, JAIL_UID, JAIL_UID)) < 0))
        return err_sys(err, errno, "become the sandbox user");
    if (SYS(setsid()) < 0)
        return err_sys(err, errno, "setsid");
    return 0;
}

/* Everything else of the zygote's is closed. The first four are all above where they go. */
static int zygote_interpreter_arrange_descriptors(const int fds[WIRE_FDS_MAX], int *anchor,
                                                  struct err *err)
{
    static const int places[][2] = {{ZYGOTE_LINE, LINE_FD},
                                    {ZYGOTE_START_SOCKET, START_FD},
                                    {ZYGOTE_OUT, STDOUT_FILENO},
                                    {ZYGOTE_ERR, STDERR_FILENO}};
    int high[countof(places)];
    for (size_t i = 0; i < countof(places); i++)
        high[i] = fcntl(fds[places[i][0]], F_DUPFD_CLOEXEC, START_FD + 1);
    int high_anchor = *anchor < 0 ? -1 : fcntl(*anchor, F_DUPFD_CLOEXEC, START_FD + 1);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return err_sys(err, errno, "arrange descriptors");
    for (size_t i = 0; i < countof(places); i++) {
        int to = places[i][1];
        if (high[i] < 0 || (to <= 2 ? dup2(high[i], to) : dup3(high[i], to, O_CLOEXEC)) < 0)
            return err_sys(err, errno, "arrange descriptors");
    }
    if (*anchor >= 0 && (high_anchor < 0 || dup3(high_anchor, ANCHOR_FD, O_CLOEXEC) < 0))
        return err_sys(err, errno, "arrange descriptors");
    if (*anchor >= 0)
        *anchor = ANCHOR_FD;
    if ((DEFENDED(CLOSE_RANGE) && k_close_range(ANCHOR_FD + 1, LINE_FD - 1, 0) < 0) ||
        (*anchor < 0 && close(ANCHOR_FD) < 0 && errno != EBADF))
        return err_sys(err, errno, "close the zygote's descriptors");
    return lockdown_descriptors(START_FD, err);
}

static int reset_signals(struct err *err)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int sig = 1; sig < 32; sig++)
        (void)signal(sig, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN); /* as Python has it */
    if (SYS(sigprocmask(SIG_SETMASK, &none, NULL)) < 0)
        return err_sys(err, errno, "reset signals");
    return 0;
}

/* Init requests a signal with one byte, which arrives as SIGURG; processes without a handler ignore
 * SIGURG. The requested signal goes to our whole process group, as for any command. */
static void on_init_signal(int sig)
{
    unsigned char number;
    int code = errno;
    (void)sig;
    while (recv(START_FD, &number, 1, MSG_DONTWAIT) == 1)
        (void)kill(0, number);
    errno = code;
}

/* Whatever waits then has to look: nothing is restarted. */
static int handle_init_signals(struct err *err)
{
    struct sigaction action = {.sa_handler = on_init_signal};
    if (sigaction(SIGURG, &action, NULL) < 0 || fcntl(START_FD, F_SETOWN, getpid()) < 0 ||
        fcntl(START_FD, F_SETSIG, SIGURG) < 0 || fcntl(START_FD, F_SETFL, O_ASYNC) < 0)
        return err_sys(err, errno, "listen to init");
    return 0;
}

static int enter_cwd(const char *path, struct err *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    AUTO_CLOSE int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd < 0 || fchdir(fd) < 0)
        return err_set(err, ERR_BAD_CWD, "cannot start in '%s': %s", path, strerror(errno));
    return 0;
}

/* What the daemon has sent for it. */
struct start {
    struct str env;
    int image;   /* memory to continue from; -1: none */
    bool copies; /* it is read, not mapped */
};

/* Reads the first bytes of a tenant: the process is fully confined by now. */
static int read_start(char *space, struct start *ret_start, struct err *err)
{
    int fds[WIRE_FDS_MAX];
    struct wire_head head;
    ssize_t len = wire_recv(START_FD, space, fds, true, err);
    if (len < 0)
        return -1;
    if (len > 0)
        ret_start->image = fd_take(&fds[0]);
    wire_close_fds(fds);
    struct wire_in in = wire_open(str_n(space, (size_t)len), &head);
    const char *cwd = wire_get_cstr(&in);
    ret_start->env = wire_get_bytes(&in);
    ret_start->copies = wire_get_u32(&in) != 0;
    if (cwd == NULL || !wire_ended(&in))
        return err_set(err, ERR_INVALID, "interpreter: malformed start message");
    return enter_cwd(cwd, err);
}

static int confine(const struct zygote_work *work, struct err *err)
{
    int anchor = -1;
    if (enter_groups(work->fds, err) < 0 || enter_root(work->is_anchored, &anchor, err) < 0 ||
        become_tenant(err) < 0 ||
        zygote_interpreter_arrange_descriptors(work->fds, &anchor, err) < 0 ||
        reset_signals(err) < 0)
        return -1;
    if (lockdown_own_rlimits(&work->limits, err) < 0 || lockdown_privileges(err) < 0)
        return -1;
    if (landlock_restrict(work->writable, NULL, anchor, err) < 0 ||
        filter_install(FILTER_LATE, err) < 0)
        return -1;
    fd_close(&anchor);
    zygote_await_parents();
    (void)prctl(PR_SET_NAME, "kernel-python", 0, 0, 0);
    /* This memory is the tenant's own from here on, to be looked into by its own debugger. */
    if (SYS(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)) < 0)
        return err_sys(err, errno, "become readable");
    return 0;
}

static int tell_start(struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    wire_begin(&out, INIT_STARTED, 0);
    wire_put_u32(&out, (uint32_t)getpid());
    return wire_send(START_FD, buf_str(&out), NULL, 0, err);
}

void zygote_tell_failure(int start_fd, const struct err *why)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    struct err ignored;
    wire_begin(&out, INIT_FAILED, 0);
    wire_put_err(&out, why);
    (void)!wire_send(start_fd, buf_str(&out), NULL, 0, &ignored);
}

int zygote_copy_interpreter(int fd, uint64_t limit, struct err *err)
{
    static const int own[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, LINE_FD, START_FD};
    return zygote_image_write(fd, limit, own, countof(own), err);
}

/* Continues as the saved interpreter; if that fails, as a fresh one: its first message says which.
 */
static void continue_from_image(const struct start *start, const struct zygote_hooks *hooks)
{
    struct err err = {0};
    zygote_image_restore(start->image, start->copies, start->env, &err);
    (void)dprintf(STDERR_FILENO, "interpreter: %s\n", err.msg);
    if (hooks->awake(start->env, &err) < 0)
        _exit(1);
}

void zygote_become_interpreter(const struct zygote_work *work, const struct zygote_hooks *hooks)
{
    static char space[WIRE_MAX];
    struct err err = {0};
    struct start start = {.image = -1};
    int start_fd = work->fds[ZYGOTE_START_SOCKET];
    if (confine(work, &err) < 0) {
        /* Wherever the socket is by now. */
        zygote_tell_failure(fcntl(START_FD, F_GETFD) >= 0 ? START_FD : start_fd, &err);
        _exit(1);
    }
    if (read_start(space, &start, &err) < 0 || handle_init_signals(&err) < 0 ||
        (start.image < 0 && hooks->awake(start.env, &err) < 0)) {
        zygote_tell_failure(START_FD, &err);
        _exit(1);
    }
    if (tell_start(&err) < 0)
        _exit(1);
    if (start.image >= 0)
        continue_from_image(&start, hooks);
    int done = hooks->serve(LINE_FD, &err);
    if (done < 0)
        (void)dprintf(STDERR_FILENO, "interpreter: %s\n", err.msg);
    _exit(done < 0);
}
