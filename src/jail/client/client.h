#pragma once

/* Shared by the files of the client: the line to the warden, the line to a jail's init. */

#include "jail/client/files.h"
#include "jail/client/outbox.h"

/* A packet that was received while a caller waited for another one. */
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
    int helper_fd; /* the program of heavy file verbs; -1: not needed yet */
    /* For every jail too: one thread uses them, one message at a time. */
    struct buf out;
    char in[WIRE_MAX];
    struct jail_file_answer answer;
};

/* What an operation under way is, so that its answers can be judged. */
enum asked_kind { ASKED_COMMAND, ASKED_SIGNAL, ASKED_FILE, ASKED_CONNECT };

struct asked {
    uint32_t id;
    enum asked_kind kind;
    bool tty, started;
    bool is_fork;        /* of an interpreter */
    char *program, *cwd; /* for the words of a refusal */
    enum jail_file_verb verb;
    uint64_t most, got; /* records or bytes that the answer may have, and has so far */
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
    char *last_kept; /* the event that was given last borrows from it */
};

enum { JAIL_KEPT_MAX = 16 << 20 };

/* Sends the request that was begun in warden->out; the descriptors stay the caller's. */
int warden_send(struct warden_link *warden, const int *fds, size_t fd_count,
                struct err *err) MUST_USE;
uint32_t warden_begin(struct warden_link *warden, uint32_t type);
/* One answer from the socket; false when none has arrived or the connection is lost. */
bool warden_take(struct warden_link *warden, struct warden_event *ret_event);
/* Waits for the answer to one request; others are kept. FAILED becomes an error. */
int warden_await(struct warden_link *warden, uint32_t request, struct warden_event *ret_event,
                 struct err *err) MUST_USE;

/* Takes the descriptors: pidfd, control socket, sockets of the gateway. */
struct jail *jail_new(struct warden_link *warden, uint32_t number, const int fds[WIRE_FDS_MAX]);

/* A new operation, not sent yet; NULL with the reason. The message begins in warden->out. */
struct asked *jail_begin(struct jail *jail, enum asked_kind kind, uint32_t type, struct err *err);
/* Sends the message of the operation that was begun last; it is forgotten when that fails. */
int jail_send(struct jail *jail, const int *fds, size_t fd_count, uint32_t *ret_id,
              struct err *err) MUST_USE;

struct asked *jail_find_asked(const struct jail *jail, uint32_t id);

/* A packet from the socket, in the shared buffer; 0 when none has arrived or the connection is
 * lost. */
size_t jail_take_packet(struct jail *jail, int fds[WIRE_FDS_MAX]);
/* False when it is no answer: then the line has ended. The descriptors are taken or closed. */
bool jail_read_packet(struct jail *jail, struct str packet, int fds[WIRE_FDS_MAX],
                      struct jail_event *ret_event);
bool jail_take_kept(struct jail *jail, size_t index, struct jail_event *ret_event);
/* Ignores everything that it sends from now on and reports GONE, with `why` unless NULL. */
void jail_lose(struct jail *jail, const struct err *why);

/* The next event of this operation; those of others stay for later. */
int jail_await_answer(struct jail *jail, uint32_t id, struct jail_event *ret_event,
                      struct err *err) MUST_USE;

/* Answers that fit their question; files.c. */
bool jail_read_part(struct asked *asked, struct wire_in *in, struct jail_event *event);
bool jail_read_file(const struct asked *asked, struct wire_in *in, struct jail_file_answer *answer,
                    struct jail_event *event);
bool jail_read_failed(struct wire_in *in, struct jail_event *event);
bool jail_is_connection(int fd);
