#pragma once

/* Jails, for the daemon, the CLI and tests.
 *
 * A warden makes them (jail/client/warden_link.h); a jail is a running place; commands are started
 * in it. As there, an event loop sends requests and takes events, and callers that may wait use the
 * blocking calls.
 *
 * Events: jail_ask_* never waits and gives the id of the operation. Watch jail_fd() for reading
 * (and for writing while jail_wants_write()), then call jail_next() until it says that there is
 * nothing more. A command is STARTED or REFUSED, and one that was started EXITS; every other
 * operation ends with one event. When the jail has ended, GONE is reported once and nothing
 * follows.
 *
 * What comes from inside is checked: an answer that was not requested, is malformed or brings a
 * descriptor of the wrong kind ends the connection (GONE, with the reason), and none of its
 * descriptors stays open. */

#include "jail/client/warden_link.h"

enum { JAIL_ASKED_MAX = 1024 }; /* operations and commands under way in one jail: BUSY */

struct jail *jail_free(struct jail *jail); /* ends it first, waiting, unless that was asked for */
DEFINE_FREEP(jail)
#define AUTO_JAIL AUTO(jail_freep)

int jail_pidfd(const struct jail *jail);
uint32_t jail_number(const struct jail *jail); /* among those of its warden */
/* One of the sockets of JAIL_NET_GATEWAY. The first call passes it to the caller; otherwise -1. */
int jail_take_socket(struct jail *jail, enum jail_socket which);

struct jail_exit {
    uint32_t id;
    int code;   /* when signal is 0 */
    int signal; /* that ended it */
    int64_t user_us, system_us, peak_kib, wall_ns;
    /* Of the control group that it had for itself, or shared with others where more ran: how many
     * processes were killed for memory while it ran, and the highest use. -1: it had none. */
    int64_t oom_kills, group_peak;
};

/* Killed by SIGKILL, or a shell exited with the code that reports this of its last process. */
bool jail_exit_is_kill(const struct jail_exit *exit);
/* Whether memory ran out. Its own control group knows; `jail_kills`, how many processes of the
 * whole jail were killed for memory meanwhile, counts only for a command that had none. */
bool jail_exit_is_oom(const struct jail_exit *exit, int64_t jail_kills);

struct jail_file_answer;

enum jail_event_type {
    JAIL_EVENT_STARTED,   /* with a terminal `fd`, its controlling descriptor */
    JAIL_EVENT_REFUSED,   /* `err`: the command did not start */
    JAIL_EVENT_EXITED,    /* `exit` */
    JAIL_EVENT_DONE,      /* the signal was sent */
    JAIL_EVENT_FAILED,    /* `err`: the operation failed */
    JAIL_EVENT_GONE,      /* `err`: the jail has ended */
    JAIL_EVENT_FILE,      /* `file`: the answer to a file operation (jail/client/files.h) */
    JAIL_EVENT_PART,      /* `part`: some of its records; more follows */
    JAIL_EVENT_CONNECTED, /* `fd`: a connection to a server inside */
};

struct jail_event {
    enum jail_event_type type;
    uint32_t id;
    int fd;      /* the caller's; -1: none */
    int32_t pid; /* of STARTED: in the jail, as init says; for people only */
    struct jail_exit exit;
    /* Good until the next call on a jail of the same warden. */
    const struct jail_file_answer *file;
    struct str part;
    struct err err;
};

/* Readable when jail_next has something to say. */
int jail_fd(const struct jail *jail);
/* Questions wait for room in the socket: when it is writable, jail_next sends them. */
bool jail_wants_write(const struct jail *jail);
/* Init is asked nothing until jail_release: questions wait here. BUSY while it has not answered all
 * that it was asked, other than the end of `commands` running ones. */
int jail_hold(struct jail *jail, size_t commands, struct err *err) MUST_USE;
void jail_release(struct jail *jail);
/* Takes one event; false if no event is available. Never waits. */
bool jail_next(struct jail *jail, struct jail_event *ret_event);

/* Each fails at once for an invalid request (INVALID), an ended jail (GONE) or too many operations
 * in progress (BUSY).
 *
 * A command gets these three as its standard streams; they stay the caller's and may be closed at
 * once. With a terminal `fds` is not used. */
int jail_ask_start(struct jail *jail, const struct jail_command *command, const int fds[3],
                   uint32_t *ret_id, struct err *err) MUST_USE;
/* To the process group of the command `id`, whose number it is that jail_ask_start gave; the event
 * has a number of its own. 0 for `id`: to every process in the jail but its init. */
int jail_ask_signal(struct jail *jail, uint32_t id, int sig, uint32_t *ret_id,
                    struct err *err) MUST_USE;

/* One that waits for its first command gets ready for it. There is no answer. */
void jail_rehearse(struct jail *jail);

/* The same, waiting. Each way not to start has its own code: BAD_CWD, PROGRAM_NOT_FOUND (or its
 * interpreter), NOT_EXECUTABLE, EXEC_FORMAT; LIMIT when there is no room for another command. */
int jail_start(struct jail *jail, const struct jail_command *command, const int fds[3],
               uint32_t *ret_id, int *ret_tty_fd, struct err *err) MUST_USE;
int jail_signal(struct jail *jail, uint32_t id, int sig, struct err *err) MUST_USE;
/* The next command that ended. TIMEOUT after `timeout_ms` (-1: none), GONE when the whole jail has
 * ended. */
int jail_wait(struct jail *jail, int timeout_ms, struct jail_exit *ret_exit,
              struct err *err) MUST_USE;

/* Sets the size of the terminal; the command gets SIGWINCH. There is no answer. */
int jail_resize(int tty_fd, uint16_t rows, uint16_t cols, struct err *err) MUST_USE;
