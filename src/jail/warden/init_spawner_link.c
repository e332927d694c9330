#include "jail/warden/init_spawner_link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd_pass.h"
#include "jail/inside/init_spawner.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/mounts_internal.h"
#include "jail/warden/child.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"
#include "jail/wire/warden.h"
#include "jail/wire/wire.h"

enum { NULL_FD = 4, PROGRAM_FD = 6, HIGH = 10 };
static_assert(INIT_SPAWNER_SOCKET_FD == 3 && INIT_SPAWNER_ALIVE_FD == 5,
              "between the null devices");

static int init_spawner_link_arrange_descriptors(int socket, int alive_fd, int program_fd,
                                                 struct err *err)
{
    int line = fcntl(socket, F_DUPFD, HIGH), alive = fcntl(alive_fd, F_DUPFD, HIGH);
    int program = fcntl(program_fd, F_DUPFD, HIGH);
    int low = open(TREE "/dev/null", O_RDWR | O_CLOEXEC);
    int null = low < 0 ? -1 : fcntl(low, F_DUPFD, HIGH);
    if (line < 0 || alive < 0 || program < 0 || null < 0)
        return err_sys(err, errno, "arrange descriptors");
    for (int fd = 0; fd <= NULL_FD; fd++)
        if (SYS(dup2(fd == INIT_SPAWNER_SOCKET_FD ? line : null, fd)) < 0)
            return err_sys(err, errno, "arrange descriptors");
    if (SYS(dup2(alive, INIT_SPAWNER_ALIVE_FD)) < 0 ||
        SYS(dup3(program, PROGRAM_FD, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "arrange descriptors");
    return lockdown_descriptors(PROGRAM_FD, err);
}

struct beginning {
    int program_fd, alive_fd;
};

static void run_init_spawner(const void *ctx, int socket)
{
    const struct beginning *from = ctx;
    char name[] = "init";
    char *argv[] = {name, NULL}, *env[] = {NULL};
    struct err err = {0};
    if (init_spawner_link_arrange_descriptors(socket, from->alive_fd, from->program_fd, &err) == 0)
        (void)syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
}

/* It says whether it could begin: what this host lacks is known before the first jail. */
static int say_hello(const struct init_spawner_link *spawner, bool as_root, struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    static char space[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
    struct wire_head head = {0};
    wire_begin(&out, INIT_SPAWNER_HELLO, 0);
    wire_put_u32(&out, as_root);
    if (wire_send(spawner->socket, buf_str(&out), NULL, 0, err) < 0)
        return err_wrap(err, "send the init spawner its first message");
    ssize_t len = wire_recv(spawner->socket, space, fds, true, err);
    if (len < 0)
        return err_wrap(err, "send the init spawner its first message");
    struct wire_in in = wire_open(str_n(space, (size_t)len), &head);
    wire_close_fds(fds);
    if (head.type == INIT_READY)
        return 0;
    if (head.type != INIT_BROKEN)
        return err_set(err, ERR_INTERNAL, "the init spawner died before its first message");
    wire_get_err(&in, err);
    return -1;
}

int init_spawner_start(struct init_spawner_link *spawner, int program_fd, int alive_fd,
                       bool as_root, struct err *err)
{
    struct beginning from = {.program_fd = program_fd, .alive_fd = alive_fd};
    struct init_spawner_link started;
    if (child_start(run_init_spawner, &from, &started.pid, &started.socket, err) < 0)
        return -1;
    *spawner = started;
    return say_hello(spawner, as_root, err);
}

/* What a jail need not know stays out of it: where on the host its directories come from. */
static struct jail_plan without_sources(const struct jail_plan *plan)
{
    static const char somewhere[] = "/-";
    struct jail_plan told = *plan;
    told.base = plan->base == NULL ? NULL : somewhere;
    told.workspace = plan->workspace == NULL ? NULL : somewhere;
    told.disk = plan->disk == NULL ? NULL : somewhere;
    for (size_t i = 0; i < plan->mount_count; i++)
        told.mounts[i].src = somewhere;
    for (size_t i = 0; i < plan->layer_count; i++)
        told.layers[i] = somewhere;
    return told;
}

static void put_question(struct buf *out, const struct init_spawner_question *question)
{
    struct jail_plan told = without_sources(question->plan);
    wire_begin(out, INIT_SPAWNER_MAKE, 0);
    wire_put_u32(out, question->outer_id);
    wire_put_u32(out, question->as_other);
    wire_put_u32(out, question->group_fd >= 0);
    wire_put_u32(out, (uint32_t)question->entries->count);
    plan_put(out, &told);
}

/* In the order that jail/inside/init_spawner.h gives. */
static size_t list_fds(const struct init_spawner_question *question, int fds[INIT_SPAWNER_FDS_MAX])
{
    const struct mount_set *set = question->mounts;
    size_t count = 0;
    static_assert(2 + 1 + CG_COUNT + countof(set->layer_fds) + 2 + countof(set->items) <=
                      INIT_SPAWNER_FDS_MAX,
                  "room for each");
    fds[count++] = question->control_fd;
    fds[count++] = question->net_fd;
    if (question->group_fd >= 0)
        fds[count++] = question->group_fd;
    for (size_t i = 0; i < question->entries->count; i++)
        fds[count++] = question->entries->fds[i];
    for (size_t i = 0; i < set->layer_count; i++)
        fds[count++] = set->layer_fds[i];
    if (set->disk_fd >= 0)
        fds[count++] = set->disk_fd;
    for (size_t i = 0; i < set->count; i++)
        fds[count++] = set->items[i].fd;
    return count;
}

int init_spawner_ask(struct init_spawner_link *spawner,
                     const struct init_spawner_question *question, struct err *err)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    int fds[INIT_SPAWNER_FDS_MAX];
    fds[0] = -1;
    size_t count = list_fds(question, fds);
    put_question(&out, question);
    struct iovec part = {.iov_base = out.ptr, .iov_len = out.len};
    return fd_send(spawner->socket, &part, 1, fds, count, 0) < 0
               ? err_sys(err, errno, "ask the init spawner")
               : 0;
}

void init_spawner_stop(struct init_spawner_link *spawner)
{
    if (spawner->pid <= 0)
        return;
    child_stop(spawner->pid, &spawner->socket);
    *spawner = (struct init_spawner_link){.socket = -1};
}
