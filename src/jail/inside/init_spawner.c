#include "jail/inside/init_spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "jail/cgroup/cgroup.h"
#include "jail/inside/filter.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/netns.h"
#include "jail/inside/setup.h"
#include "jail/wire/ids.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"
#include "jail/wire/warden.h"

/* One question. Its bytes are a jail's: they are wiped before the next, and in the copy before it
 * is init. */
static struct {
    char bytes[WIRE_MAX];
    size_t len;
    int fds[INIT_SPAWNER_FDS_MAX];
    size_t fd_count;
} asked;

static int home_net;

/* What the init spawner itself reads of a question. */
struct head {
    uint32_t outer_id, as_other, has_group, entries;
};

static struct wire_in open_question(struct head *ret_head)
{
    struct wire_head head;
    struct wire_in in = wire_open(str_n(asked.bytes, asked.len), &head);
    ret_head->outer_id = wire_get_u32(&in);
    ret_head->as_other = wire_get_u32(&in);
    ret_head->has_group = wire_get_u32(&in);
    ret_head->entries = wire_get_u32(&in);
    in.bad |= head.type != INIT_SPAWNER_MAKE || ret_head->entries > CG_COUNT ||
              asked.fd_count < 2 + (ret_head->has_group != 0) + (size_t)ret_head->entries;
    return in;
}

static void put_u32(char *out, uint32_t n)
{
    memcpy(out, &n, sizeof n);
}

/* --- in the copy --- */

/* A copy has the same random numbers as the original. The ones that guard the stack and the heap
 * have not been used yet and are replaced here. The caller must not return. */
static void __attribute__((no_stack_protector)) draw_anew(void)
{
    struct {
        uint64_t random[2], guard;
    } fresh;
    if (getrandom(&fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
        _exit(2);
    memcpy((void *)getauxval(AT_RANDOM), fresh.random, sizeof fresh.random);
    fresh.guard &= ~(uint64_t)0xff00; /* ends a string that runs over it */
#if defined(__x86_64__)
    __asm__ volatile("mov %0, %%fs:0x28" : : "r"(fresh.guard));
#elif defined(__aarch64__)
    extern uintptr_t __stack_chk_guard;
    __stack_chk_guard = fresh.guard;
#endif
}

static bool take_mounts(struct mount_set *set, const struct jail_plan *plan, const int *fds,
                        size_t fd_count)
{
    size_t next = 0, layers = plan->layer_count + (plan->base != NULL);
    size_t volumes = plan->mount_count + (plan->workspace != NULL);
    *set = (struct mount_set){.disk_fd = -1};
    if (fd_count != layers + (plan->disk != NULL) + volumes)
        return false;
    while (set->layer_count < layers)
        set->layer_fds[set->layer_count++] = fds[next++];
    if (plan->disk != NULL)
        set->disk_fd = fds[next++];
    if (plan->workspace != NULL)
        mount_set_add(set, fds[next++], "/workspace", true);
    for (size_t i = 0; i < plan->mount_count; i++)
        mount_set_add(set, fds[next++], plan->mounts[i].dst, plan->mounts[i].writable);
    return true;
}

/* The kernel may make a process that enters a group wait for a grace period of many milliseconds:
 * so it is nobody else who does it. */
static int enter_groups(const int *entries, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (SYS(write(entries[i], "0", 1)) < 0)
            return err_sys(err, errno, "enter a control group");
    return 0;
}

/* Opened before the jail has a /proc of its own: in that one nobody can write. */
static int open_oom_score(struct err *err)
{
    int fd = SYS(openat(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open '/proc/self/oom_score_adj'") : fd;
}

/* Files of /proc belong to whom they tell about only while that one may be looked into. There is
 * nobody yet who could: the jail has no other process. */
static int map_ids(uint32_t outer_id, struct err *err)
{
    if (SYS(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)) < 0)
        return err_sys(err, errno, "become the owner of the files in /proc");
    return ids_map_self(JAIL_UID, outer_id, err);
}

static int init_spawner_build(struct err *err)
{
    struct head head;
    struct jail_plan plan;
    struct mount_set mounts;
    struct wire_in in = open_question(&head);
    size_t next = 2 + (head.has_group != 0);
    if (enter_groups(asked.fds + next, head.entries, err) < 0 || map_ids(head.outer_id, err) < 0)
        return -1;
    next += head.entries;
    AUTO_CLOSE int oom = open_oom_score(err);
    if (oom < 0 || plan_get(&in, &plan, err) < 0)
        return -1;
    if (!take_mounts(&mounts, &plan, asked.fds + next, asked.fd_count - next))
        return err_set(err, ERR_INVALID, "the plan's directory descriptors are missing");
    struct setup setup = {.plan = &plan, .mounts = &mounts, .oom_fd = oom};
    return setup_run(&setup, err);
}

static void wipe_question(void)
{
    explicit_bzero(asked.bytes, asked.len);
    asked.len = asked.fd_count = 0;
}

/* From clone on; says what went wrong in one message and leaves. */
static void NORETURN be_born(void)
{
    struct err err = {0};
    draw_anew();
    /* The init spawner's own socket makes room: nothing in here may speak on that. */
    if (dup2(asked.fds[0], SETUP_CONTROL_FD) < 0)
        _exit(2);
    if (init_spawner_build(&err) == 0) {
        wipe_question();
        init_serve();
    }
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    wire_begin(&out, INIT_BROKEN, 0);
    wire_put_err(&out, &err);
    struct err sent;
    _exit(wire_send(SETUP_CONTROL_FD, buf_str(&out), NULL, 0, &sent) < 0 ? 2 : 1);
}

/* --- the init spawner --- */

#define NAMESPACES                                                                                 \
    ((uint64_t)(DEFENDED(USER_NS) ? CLONE_NEWUSER : 0) | (DEFENDED(MOUNT_NS) ? CLONE_NEWNS : 0) |  \
     (DEFENDED(PID_NS) ? CLONE_NEWPID : 0) | (DEFENDED(IPC_NS) ? CLONE_NEWIPC : 0) |               \
     (DEFENDED(UTS_NS) ? CLONE_NEWUTS : 0))

/* The calls themselves: the library's would go through all threads. */
static int init_spawner_become(uint32_t id, struct err *err)
{
    if (SYS(syscall(SYS_setresgid, -1, id, -1)) < 0 || SYS(syscall(SYS_setresuid, -1, id, -1)) < 0)
        return err_sys(err, errno, "become user %u", id);
    return 0;
}

/* The warden is the parent of the copy, as it is ours. */
static pid_t clone_copy(const struct head *head, int *ret_pidfd, struct err *err)
{
    struct clone_args args = {.flags = NAMESPACES | CLONE_PIDFD | CLONE_PARENT,
                              .pidfd = (uintptr_t)ret_pidfd};
    if (head->has_group) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)asked.fds[2];
    }
    if (DEFENDED(NET_NS) && netns_enter(asked.fds[1], err) < 0)
        return -1;
    /* A process that creates a user namespace may map its own id. So the copy writes its maps
     * itself, without waiting for another process. */
    if (head->as_other && init_spawner_become(head->outer_id, err) < 0)
        return -1;
    pid_t pid = k_clone3(&args);
    if (pid == 0)
        be_born();
    return pid < 0 ? err_sys(err, errno, KERNEL_NO_NAMESPACES) : pid;
}

/* Nothing of this jail may be where the next one begins: an init spawner that cannot go back
 * leaves. */
static void go_back(const struct head *head)
{
    struct err err;
    if ((head->as_other && init_spawner_become(0, &err) < 0) ||
        (DEFENDED(NET_NS) && netns_enter(home_net, &err) < 0))
        _exit(1);
}

static void say_born(pid_t pid, int pidfd)
{
    char packet[3 * sizeof(uint32_t)];
    struct err err;
    put_u32(packet, INIT_CLONED);
    put_u32(packet + 4, 0);
    put_u32(packet + 8, (uint32_t)pid);
    /* If the send fails, the caller has given up. */
    (void)!wire_send(asked.fds[0], str_n(packet, sizeof packet), &pidfd, 1, &err);
}

/* From a buffer on the stack: memory from the heap would be a copy's, too. */
static void say_error(int fd, uint32_t type, const struct err *why)
{
    char packet[5 * sizeof(uint32_t) + sizeof why->msg];
    size_t len = strlen(why->msg);
    struct err err;
    put_u32(packet, type);
    put_u32(packet + 4, 0);
    put_u32(packet + 8, (uint32_t)why->code);
    put_u32(packet + 12, (uint32_t)why->sys);
    put_u32(packet + 16, (uint32_t)len);
    memcpy(packet + 20, why->msg, len + 1);
    (void)!wire_send(fd, str_n(packet, 20 + len + 1), NULL, 0, &err);
}

static void init_spawner_answer(void)
{
    struct err err = {0};
    struct head head;
    struct wire_in in = open_question(&head);
    int pidfd = -1;
    pid_t pid = -1;
    if (in.bad) {
        (void)err_set(&err, ERR_INTERNAL, "init spawner: malformed request");
    } else {
        pid = clone_copy(&head, &pidfd, &err);
        go_back(&head);
    }
    if (pid > 0)
        say_born(pid, pidfd);
    else if (asked.fd_count > 0)
        say_error(asked.fds[0], INIT_NOT_CLONED, &err);
}

static ssize_t hear(void)
{
    struct iovec part = {.iov_base = asked.bytes, .iov_len = sizeof asked.bytes};
    asked.fd_count = 0;
    ssize_t got = fd_recv(INIT_SPAWNER_SOCKET_FD, &part, 1, asked.fds, INIT_SPAWNER_FDS_MAX,
                          &asked.fd_count, 0);
    asked.len = got < 0 ? 0 : (size_t)got;
    return got;
}

/* What is the same in every jail is set here, once. */
static int init_spawner_prepare(struct err *err)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int sig = 1; sig < 32; sig++)
        (void)signal(sig, SIG_DFL);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return err_sys(err, errno, "reset signals");
    if (lockdown_common_rlimits(err) < 0)
        return -1;
    filter_prepare(FILTER_LATE);
    return filter_install(FILTER_EARLY, err);
}

static int init_spawner_begin(struct err *err)
{
    struct wire_head head = {0};
    ssize_t got = hear();
    struct wire_in in = wire_open(str_n(asked.bytes, asked.len), &head);
    bool as_root = wire_get_u32(&in) != 0;
    if (got <= 0 || head.type != INIT_SPAWNER_HELLO || !wire_ended(&in))
        return err_set(err, ERR_INTERNAL, "the init spawner got no first message");
    mounts_prepare(as_root);
    home_net = netns_open_own(err);
    if (home_net < 0)
        return -1;
    if (home_net != INIT_SPAWNER_ALIVE_FD + 1)
        return err_set(err, ERR_INTERNAL, "the init spawner has unexpected open descriptors");
    /* A change of user does not take capabilities along or bring any back. Where this is refused
     * there is no change either. */
    (void)prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
    return init_spawner_prepare(err);
}

int init_spawner_main(void)
{
    struct err err = {0};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        fcntl(INIT_SPAWNER_ALIVE_FD, F_SETFD, FD_CLOEXEC) < 0)
        return 1;
    int begun = init_spawner_begin(&err);
    say_error(INIT_SPAWNER_SOCKET_FD, begun < 0 ? INIT_BROKEN : INIT_READY, &err);
    /* Without a warden no more jails are requested. */
    while (begun == 0 && hear() > 0) {
        init_spawner_answer();
        wipe_question();
        if (k_close_range((unsigned)home_net + 1, ~0u, 0) < 0)
            return 1;
    }
    return 0;
}
