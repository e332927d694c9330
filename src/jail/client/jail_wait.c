/* The blocking calls of jails: loops over the calls that never wait. */

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "jail/client/client.h"
#include "jail/wire/init.h"

static void jail_wait_keep(struct jail *jail, size_t len, const int fds[WIRE_FDS_MAX])
{
    struct kept_packet packet = {.bytes = mem_dup(jail->warden->in, len), .len = len};
    struct err err;
    memcpy(packet.fds, fds, sizeof packet.fds);
    *vec_push(&jail->kept) = packet;
    jail->kept_bytes += len;
    if (jail->kept_bytes > JAIL_KEPT_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "too much unread output of init");
        jail_lose(jail, &err);
    }
}

static struct wire_head head_of(struct str packet)
{
    struct wire_head head;
    (void)wire_open(packet, &head);
    return head;
}

typedef bool jail_wanted(const struct jail *jail, struct wire_head head, uint32_t id);

static bool find_kept(const struct jail *jail, jail_wanted *wanted, uint32_t id, size_t *ret_index)
{
    for (size_t i = 0; i < jail->kept.len; i++) {
        const struct kept_packet *packet = &jail->kept.ptr[i];
        if (!wanted(jail, head_of(str_n(packet->bytes, packet->len)), id))
            continue;
        *ret_index = i;
        return true;
    }
    return false;
}

/* Sleeps until there is something to read; with EINTR it is the caller's turn. */
static int wait_for_packet(const struct jail *jail, int64_t until_ms, int timeout_ms,
                           struct err *err)
{
    struct pollfd wait = {.fd = jail->control_fd,
                          .events = (short)(POLLIN | (jail_wants_write(jail) ? POLLOUT : 0))};
    int64_t left = timeout_ms < 0 ? -1 : MAX(until_ms - clock_now_ms(), (int64_t)0);
    int ready = poll(&wait, 1, (int)left);
    if (ready < 0)
        return err_sys(err, errno, "wait");
    if (ready == 0)
        return err_set(err, ERR_TIMEOUT, "no command ended within %d ms", timeout_ms);
    return 0;
}

/* Waits for the first event that is wanted; others stay for later. */
static int await(struct jail *jail, jail_wanted *wanted, uint32_t id, int timeout_ms,
                 struct jail_event *ret_event, struct err *err)
{
    int64_t until_ms = clock_now_ms() + timeout_ms;
    size_t index;
    bool found = find_kept(jail, wanted, id, &index) && jail_take_kept(jail, index, ret_event);
    while (!found && !jail->is_gone) {
        if (wait_for_packet(jail, until_ms, timeout_ms, err) < 0)
            return -1;
        int fds[WIRE_FDS_MAX];
        size_t len = jail_take_packet(jail, fds);
        if (len == 0)
            continue;
        struct str packet = str_n(jail->warden->in, len);
        if (wanted(jail, head_of(packet), id))
            found = jail_read_packet(jail, packet, fds, ret_event);
        else
            jail_wait_keep(jail, len, fds);
    }
    if (found)
        return 0;
    *err = jail->why_gone;
    return -1;
}

/* The first answer to a question; of a command that is how its start went. */
static bool is_first_answer(UNUSED const struct jail *jail, struct wire_head head, uint32_t id)
{
    return head.id == id;
}

/* Of a command whose start was told already. */
static bool is_exit(const struct jail *jail, struct wire_head head, UNUSED uint32_t id)
{
    const struct asked *asked = head.type == INIT_EXITED ? jail_find_asked(jail, head.id) : NULL;
    return asked != NULL && asked->started;
}

int jail_await_answer(struct jail *jail, uint32_t id, struct jail_event *ret_event, struct err *err)
{
    int done;
    do {
        done = await(jail, is_first_answer, id, -1, ret_event, err);
    } while (done < 0 && err->sys == EINTR);
    return done;
}

int jail_start(struct jail *jail, const struct jail_command *command, const int fds[3],
               uint32_t *ret_id, int *ret_tty_fd, struct err *err)
{
    uint32_t id;
    struct jail_event event;
    if (jail_ask_start(jail, command, fds, &id, err) < 0 ||
        jail_await_answer(jail, id, &event, err) < 0)
        return -1;
    if (event.type == JAIL_EVENT_REFUSED) {
        *err = event.err;
        return -1;
    }
    if (command->tty)
        *ret_tty_fd = event.fd;
    *ret_id = id;
    return 0;
}

int jail_wait(struct jail *jail, int timeout_ms, struct jail_exit *ret_exit, struct err *err)
{
    struct jail_event event;
    if (await(jail, is_exit, 0, timeout_ms, &event, err) < 0)
        return -1;
    *ret_exit = event.exit;
    return 0;
}

int jail_signal(struct jail *jail, uint32_t id, int sig, struct err *err)
{
    struct jail_event event;
    uint32_t signal_id;
    if (jail_ask_signal(jail, id, sig, &signal_id, err) < 0 ||
        jail_await_answer(jail, signal_id, &event, err) < 0)
        return -1;
    if (event.type == JAIL_EVENT_DONE)
        return 0;
    *err = event.err;
    return -1;
}
