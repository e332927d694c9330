#include "jail/seed_link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/child.h"
#include "jail/init.h"
#include "jail/kernel.h"
#include "jail/lockdown.h"
#include "jail/mounts_internal.h"
#include "jail/seed.h"
#include "jail/warden.h"
#include "jail/wire.h"

enum { NULL_FD = 4, PROGRAM_FD = 6, HIGH = 10 };
static_assert(SEED_SOCKET_FD == 3 && SEED_ALIVE_FD == 5, "between the null devices");

static int arrange_descriptors(int socket, int alive_fd, int program_fd, struct err *err)
{
    int line = fcntl(socket, F_DUPFD, HIGH), alive = fcntl(alive_fd, F_DUPFD, HIGH);
    int program = fcntl(program_fd, F_DUPFD, HIGH);
    int low = open(TREE "/dev/null", O_RDWR | O_CLOEXEC);
    int null = low < 0 ? -1 : fcntl(low, F_DUPFD, HIGH);
    if (line < 0 || alive < 0 || program < 0 || null < 0)
        return err_sys(err, errno, "arrange descriptors");
    for (int fd = 0; fd <= NULL_FD; fd++)
        if (SYS(dup2(fd == SEED_SOCKET_FD ? line : null, fd)) < 0)
            return err_sys(err, errno, "arrange descriptors");
    if (SYS(dup2(alive, SEED_ALIVE_FD)) < 0 || SYS(dup3(program, PROGRAM_FD, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "arrange descriptors");
    return lockdown_descriptors(PROGRAM_FD, err);
}

struct beginning {
    int program_fd, alive_fd;
};

static void run_seed(const void *ctx, int socket)
{
    const struct beginning *from = ctx;
    char name[] = "init";
    char *argv[] = {name, NULL}, *env[] = {NULL};
    struct err err = {0};
    if (arrange_descriptors(socket, from->alive_fd, from->program_fd, &err) == 0)
        (void)syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
}

/* It says whether it could begin: what this host lacks is known before the first jail. */
static int say_hello(const struct seed_link *seed, bool as_root, struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    static char space[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
    struct wire_head head = {0};
    wire_begin(&out, SEED_HELLO, 0);
    wire_put_u32(&out, as_root);
    if (wire_send(seed->socket, buf_str(&out), NULL, 0, err) < 0)
        return err_wrap(err, "greet the seed");
    ssize_t len = wire_recv(seed->socket, space, fds, true, err);
    if (len < 0)
        return err_wrap(err, "greet the seed");
    struct wire_in in = wire_open(str_n(space, (size_t)len), &head);
    wire_close_fds(fds);
    if (head.type == INIT_READY)
        return 0;
    if (head.type != INIT_BROKEN)
        return err_set(err, ERR_INTERNAL, "the seed died before its first word");
    wire_get_err(&in, err);
    return -1;
}

int seed_start(struct seed_link *seed, int program_fd, int alive_fd, bool as_root, struct err *err)
{
    struct beginning from = {.program_fd = program_fd, .alive_fd = alive_fd};
    struct seed_link started;
    if (child_start(run_seed, &from, &started.pid, &started.socket, err) < 0)
        return -1;
    *seed = started;
    return say_hello(seed, as_root, err);
}

/* What a jail need not know stays out of it: where on the host its directories come from. */
static struct jail_plan without_sources(const struct jail_plan *plan)
{
    static const char somewhere[] = "/-";
    struct jail_plan told = *plan;
    told.base = plan->base == NULL ? NULL : somewhere;
    told.workspace = plan->workspace == NULL ? NULL : somewhere;
    told.upper = plan->upper == NULL ? NULL : somewhere;
    for (size_t i = 0; i < plan->mount_count; i++)
        told.mounts[i].src = somewhere;
    for (size_t i = 0; i < plan->layer_count; i++)
        told.layers[i] = somewhere;
    return told;
}

static void put_question(struct buf *out, const struct seed_question *question)
{
    struct jail_plan told = without_sources(question->plan);
    wire_begin(out, SEED_MAKE, 0);
    wire_put_u32(out, question->outer_id);
    wire_put_u32(out, question->as_other);
    wire_put_u32(out, question->group_fd >= 0);
    wire_put_u32(out, (uint32_t)question->doors->count);
    plan_put(out, &told);
}

/* In the order that jail/seed.h gives. */
static size_t list_fds(const struct seed_question *question, int fds[SEED_FDS_MAX])
{
    const struct mount_set *set = question->mounts;
    size_t count = 0;
    static_assert(2 + 1 + CG_COUNT + countof(set->layer_fds) + 1 + countof(set->items) <=
                      SEED_FDS_MAX,
                  "room for each");
    fds[count++] = question->control_fd;
    fds[count++] = question->net_fd;
    if (question->group_fd >= 0)
        fds[count++] = question->group_fd;
    for (size_t i = 0; i < question->doors->count; i++)
        fds[count++] = question->doors->fds[i];
    for (size_t i = 0; i < set->layer_count; i++)
        fds[count++] = set->layer_fds[i];
    if (set->upper_fd >= 0)
        fds[count++] = set->upper_fd;
    for (size_t i = 0; i < set->count; i++)
        fds[count++] = set->items[i].fd;
    return count;
}

static int send_question(int socket, struct str packet, const int *fds, size_t count,
                         struct err *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * SEED_FDS_MAX)];
    } control;
    size_t size = sizeof(int) * count;
    memset(control.space, 0, CMSG_SPACE(size));
    struct iovec part = {.iov_base = (void *)(uintptr_t)packet.ptr, .iov_len = packet.len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), fds, size);
    ssize_t sent;
    do {
        sent = SYS(sendmsg(socket, &message, MSG_NOSIGNAL));
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? err_sys(err, errno, "ask the seed") : 0;
}

int seed_ask(struct seed_link *seed, const struct seed_question *question, struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    int fds[SEED_FDS_MAX];
    fds[0] = -1;
    size_t count = list_fds(question, fds);
    put_question(&out, question);
    return send_question(seed->socket, buf_str(&out), fds, count, err);
}

void seed_stop(struct seed_link *seed)
{
    if (seed->pid <= 0)
        return;
    child_stop(seed->pid, &seed->socket);
    *seed = (struct seed_link){.socket = -1};
}
