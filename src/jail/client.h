#pragma once

/* Shared by the files of the client: the line to the warden, the line to a jail's init. */

#include "jail/jail.h"
#include "jail/outbox.h"
#include "jail/wire.h"

/* A packet that was taken while somebody waited for another one. */
struct kept_packet {
    char *bytes;
    size_t len;
    int fds[WIRE_FDS_MAX];
};

struct warden_link {
    int fd;
    pid_t pid;
    uint32_t last_request;
    bool is_gone, is_gone_told;
    struct err why_gone;
    struct jail_host host;
    struct outbox outbox;
    VEC(struct warden_event) kept;
    /* For every jail too: one thread uses them, one message at a time. */
    struct buf out;
    char in[WIRE_MAX];
};

/* What an operation under way is, so that its answers can be judged. */
enum asked_kind { ASKED_COMMAND, ASKED_SIGNAL };

struct asked {
    uint32_t id;
    enum asked_kind kind;
    bool tty, started;
    char *program, *cwd; /* for the words of a refusal */
};

struct jail {
    struct warden_link *warden;
    uint32_t number;
    int pidfd, control_fd;
    int sockets[JAIL_SOCKETS]; /* -1: none, or taken */
    uint32_t last_id;
    bool ended; /* was asked to */
    bool is_gone, is_gone_told;
    struct err why_gone;
    struct outbox outbox;
    VEC(struct asked) asked;
    VEC(struct kept_packet) kept;
    size_t kept_bytes;
};

enum { JAIL_KEPT_MAX = 16 << 20 };

/* Takes the descriptors: pidfd, control socket, sockets of the gateway. */
struct jail *jail_new(struct warden_link *warden, uint32_t number, const int fds[WIRE_FDS_MAX]);

/* A new operation, not sent yet; NULL with the reason. The message begins in warden->out. */
struct asked *jail_begin(struct jail *jail, enum asked_kind kind, uint32_t type, struct err *err);
/* Sends the message of the operation that was begun last; it is forgotten when that fails. */
int jail_send(struct jail *jail, const int *fds, size_t fd_count, uint32_t *ret_id,
              struct err *err) MUST_USE;

/* Waits for the first event that is wanted; others stay for later. */
typedef bool jail_wanted(const struct jail *jail, struct wire_head head, uint32_t id);
int jail_await(struct jail *jail, jail_wanted *wanted, uint32_t id, int timeout_ms,
               struct jail_event *ret_event, struct err *err) MUST_USE;
