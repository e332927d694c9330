#include "jail/warden/zygote_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/mounts_internal.h"
#include "jail/warden/child.h"
#include "jail/wire/linux.h"
#include "jail/wire/wire.h"
#include "jail/zygote/zygote.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int umount2(const char *target, int flags);

enum { DETACH = 2, PROGRAM_FD = ZYGOTE_PROC_FD + 1, CAPS_MAX = 64, TMP_BYTES = 64 << 20 };

static int zygote_start_arrange_descriptors(const struct zygote_start *start, int line,
                                            struct err *err)
{
    int high = fcntl(line, F_DUPFD, 10), program = fcntl(start->program_fd, F_DUPFD, 10);
    int self = openat(start->proc_fd, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int null = open(TREE "/dev/null", O_RDWR | O_CLOEXEC);
    int high_self = self < 0 ? -1 : fcntl(self, F_DUPFD, 10);
    int high_null = null < 0 ? -1 : fcntl(null, F_DUPFD, 10);
    if (high < 0 || program < 0 || high_self < 0 || high_null < 0)
        return err_sys(err, errno, "arrange descriptors");
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(high_null, fd) < 0)
            return err_sys(err, errno, "arrange descriptors");
    if (dup2(high, ZYGOTE_CONTROL_FD) < 0 || dup2(high_self, ZYGOTE_PROC_FD) < 0 ||
        dup3(program, PROGRAM_FD, O_CLOEXEC) < 0)
        return err_sys(err, errno, "arrange descriptors");
    return DEFENDED(ZYGOTE_DESCRIPTORS) ? lockdown_descriptors(PROGRAM_FD, err) : 0;
}

/* Only the tree that jails show, with a writable /tmp. */
static int enter_tree(struct err *err)
{
    if (SYS(unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)) < 0)
        return err_sys(err, errno, "make the zygote's namespaces");
    AUTO_CLOSE int tmp = mounts_new_tmpfs(TMP_BYTES, 0, "1777", MOUNT_ATTR_NOSUID, err);
    AUTO_CLOSE int at = SYS(open(TREE "/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (tmp < 0)
        return -1;
    if (at < 0 || k_move_mount(tmp, at) < 0)
        return err_sys(err, errno, "mount the zygote's /tmp");
    if (!DEFENDED(ZYGOTE_TREE))
        return SYS(chdir(TREE)) < 0 || SYS(chroot(".")) < 0 ? err_sys(err, errno, "chroot") : 0;
    if (SYS(chdir(TREE)) < 0 || SYS(syscall(SYS_pivot_root, ".", ".")) < 0 ||
        SYS(umount2(".", DETACH)) < 0 || SYS(chdir("/")) < 0)
        return err_sys(err, errno, "enter the zygote's tree");
    return 0;
}

/* Networks of jails belong to the warden's own user namespace, and so does the memory that every
 * init is a copy of: to go where an init is takes these there. All others that it needs come with
 * entering the jail's user namespace. */
static const uint32_t kept = 1u << CAP_SYS_ADMIN | 1u << CAP_SYS_CHROOT | 1u << CAP_SYS_PTRACE;

static int keep_capabilities(struct err *err)
{
    if (!DEFENDED(ZYGOTE_CAPABILITIES))
        return 0;
    for (unsigned long cap = 0; cap < CAPS_MAX; cap++) {
        if ((cap < 32 && (kept >> cap & 1) != 0) || SYS(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0)
            continue;
        if (errno == EINVAL && cap > 0)
            break; /* past the last that this kernel knows */
        return err_sys(err, errno, "drop capability %lu", cap);
    }
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = kept, .permitted = kept}};
    if (SYS(syscall(SYS_capset, &head, data)) < 0)
        return err_sys(err, errno, "drop the capabilities");
    return 0;
}

static void become_zygote(const void *ctx, int line)
{
    const struct zygote_start *start = ctx;
    char name[] = "kernel-python", flag[] = "--zygote";
    char *argv[] = {name, flag, (char *)(uintptr_t)start->names, NULL};
    /* One thread: what is copied has no others, so none may hold a lock then. */
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                      "HOME=/tmp",
                                      "LANG=C.UTF-8",
                                      "MPLCONFIGDIR=/tmp/matplotlib",
                                      "PYTHONDONTWRITEBYTECODE=1",
                                      "OPENBLAS_NUM_THREADS=1",
                                      "OMP_NUM_THREADS=1",
                                      "MKL_NUM_THREADS=1",
                                      "NUMEXPR_NUM_THREADS=1",
                                      NULL};
    struct err err = {0}, ignored;
    sigset_t none;
    (void)sigemptyset(&none);
    for (int sig = 1; sig < 32; sig++)
        (void)signal(sig, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (zygote_start_arrange_descriptors(start, line, &err) == 0 && enter_tree(&err) == 0 &&
        keep_capabilities(&err) == 0 && SYS(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) == 0) {
        (void)syscall(SYS_execveat, PROGRAM_FD, "", argv,
                      DEFENDED(ZYGOTE_ENVIRONMENT) ? env : (const char *const *)environ,
                      AT_EMPTY_PATH);
        (void)err_sys(&err, errno, "run the zygote");
    }
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    wire_begin(&out, ZYGOTE_BROKEN, 0);
    wire_put_err(&out, &err);
    _exit(wire_send(ZYGOTE_CONTROL_FD, buf_str(&out), NULL, 0, &ignored) < 0 ? 2 : 1);
}

int zygote_start(const struct zygote_start *start, pid_t *ret_pid, int *ret_fd, struct err *err)
{
    return child_start(become_zygote, start, ret_pid, ret_fd, err);
}
