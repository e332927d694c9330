#include "jail/client/jail_fork.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/client/client.h"
#include "jail/wire/init.h"
#include "jail/wire/warden.h"

int warden_ask_zygote(struct warden_link *warden, int program_fd, const char *names, bool is_plain,
                      uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(warden, WARDEN_ZYGOTE);
    wire_put_cstr(&warden->out, names);
    wire_put_u32(&warden->out, is_plain);
    if (warden_send(warden, &program_fd, 1, err) < 0)
        return -1;
    *ret_request = request;
    return 0;
}

int warden_lease_zygote(struct warden_link *warden, uint32_t zygote, bool is_begin, struct err *err)
{
    wire_begin(&warden->out, WARDEN_LEASE, 0);
    wire_put_u32(&warden->out, zygote);
    wire_put_u32(&warden->out, is_begin);
    return warden_send(warden, NULL, 0, err);
}

int jail_ask_limits(struct jail *jail, const struct jail_limits *limits, uint32_t *ret_request,
                    struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_LIMITS);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_i64(&jail->warden->out, limits->memory_bytes);
    wire_put_i64(&jail->warden->out, limits->cpu_milli);
    if (warden_send(jail->warden, NULL, 0, err) < 0)
        return -1;
    *ret_request = request;
    return 0;
}

/* The tenant's data waits in the socket until the interpreter reads it. */
static int fill_start(struct warden_link *warden, int fd, const struct jail_command *command,
                      struct err *err)
{
    AUTO_BUF struct buf env = buf_with_limit(JAIL_ARGS_BYTES);
    for (size_t i = 0; command->env != NULL && command->env[i] != NULL; i++)
        buf_put(&env, str_n(command->env[i], strlen(command->env[i]) + 1));
    wire_begin(&warden->out, INIT_START, 0);
    wire_put_cstr(&warden->out, command->cwd == NULL ? "/workspace" : command->cwd);
    wire_put_bytes(&warden->out, buf_str(&env));
    wire_put_u32(&warden->out, command->copies_memory);
    return wire_send(fd, buf_str(&warden->out), &command->memory_fd, command->memory_fd > 0, err);
}

static int ask_warden(struct jail *jail, uint32_t command, uint32_t zygote, const int fds[4],
                      struct err *err)
{
    wire_begin(&jail->warden->out, WARDEN_FORK, 0);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, command);
    wire_put_u32(&jail->warden->out, zygote);
    return warden_send(jail->warden, fds, 4, err);
}

int jail_ask_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
                  uint32_t *ret_id, struct err *err)
{
    static const char *const argv[] = {"kernel", NULL};
    struct jail_command checked = *command;
    uint32_t id;
    int pair[2];
    checked.argv = argv;
    if (jail_command_check(&checked, err) < 0)
        return -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int inits = pair[0], interpreters = pair[1];
    if (fill_start(jail->warden, inits, command, err) < 0)
        return -1;
    struct asked *asked = jail_begin(jail, ASKED_COMMAND, INIT_ADOPT, err);
    if (asked == NULL)
        return -1;
    asked->is_fork = true;
    if (jail_send(jail, &inits, 1, &id, err) < 0)
        return -1;
    *ret_id = id;
    /* When this fails, init sees that the start socket is closed and refuses the command. */
    struct err ignored;
    (void)!ask_warden(jail, id, command->zygote, (int[]){interpreters, fds[0], fds[1], fds[2]},
                      &ignored);
    return 0;
}
