#include "place.h"

#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/client.h"

struct warden_link *place_warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

struct jail_plan place_plan(struct jail_plan plan)
{
    const struct jail_host *host = warden_host(place_warden());
    if (host->no_memory[0] != '\0' && plan.limits.memory_bytes == 0)
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0' && plan.limits.cpu_milli == 0)
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

struct jail *place_jail(struct jail_plan plan)
{
    struct err err = {0};
    struct jail *jail = NULL;
    struct jail_plan able = place_plan(plan);
    CHECK_OK(jail_make(place_warden(), &able, &jail, &err));
    return jail;
}

const char *place_shell(struct jail *jail, const char *script, struct jail_exit *ret_exit)
{
    static char text[65536];
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct jail_command command = {.argv = argv};
    struct jail_exit unused;
    struct err err = {0};
    uint32_t id;
    int out[2];
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    CHECK_OK(jail_start(jail, &command, (int[]){null, out[1], out[1]}, &id, NULL, &err));
    CHECK_INT(close(out[1]), 0);
    AUTO_BUF struct buf bytes = buf_with_limit(sizeof text - 1);
    CHECK_OK(buf_read_all(&bytes, reader, &err));
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&bytes));
    CHECK_OK(jail_wait(jail, 60000, ret_exit == NULL ? &unused : ret_exit, &err));
    return text;
}

static void wait_for(int fd, bool to_write)
{
    struct pollfd wait = {.fd = fd, .events = (short)(POLLIN | (to_write ? POLLOUT : 0))};
    CHECK_INT(poll(&wait, 1, 60000), 1);
}

void place_next(struct jail *jail, struct jail_event *ret_event)
{
    while (!jail_next(jail, ret_event))
        wait_for(jail_fd(jail), jail_wants_write(jail));
}

void place_warden_next(struct warden_link *warden, struct warden_event *ret_event)
{
    while (!warden_next(warden, ret_event))
        wait_for(warden_fd(warden), warden_wants_write(warden));
}

struct jail *place_fake(int *ret_peer)
{
    static struct warden_link line = {.fd = -1, .helper_fd = -1, .out = {.limit = WIRE_MAX}};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *ret_peer = pair[1];
    struct jail *jail =
        jail_new(&line, 1, (int[WIRE_FDS_MAX]){-1, pair[0], -1, -1, -1, -1, -1, -1});
    jail->ended = true; /* no warden knows it */
    return jail;
}
