#pragma once

/* Files of a running jail. Its init does the work inside, as the jail's uid in its mount namespace:
 * a path resolves as it does for programs of the jail, and cannot reach what they cannot reach.
 * The daemon opens no path of a tenant and parses none of its files.
 *
 * jail_ask_file() takes any question and never waits; see jail/wire/file_wire.h for what each verb
 * takes and gives. Events (jail/client/jail.h): JAIL_EVENT_PART any number of times for list, glob,
 * grep and watch, then one JAIL_EVENT_FILE, or JAIL_EVENT_FAILED. Any number may be under way; a
 * slow one holds up no other, and jail_cancel() ends it. The small verbs need no process inside, so
 * they still work in a jail that has none left.
 *
 * Contents of up to JAIL_FILE_BYTES_MAX bytes travel in the packets. More goes through a pipe,
 * socket or file that comes with the question: the jail reads from it or writes to it at the pace
 * of the other side, and nothing of it passes through the memory of the daemon. An upload is
 * complete at the end of the stream: of a pipe when it is closed, so name the size (`expected`) or
 * cancel, else what is cut short counts as all; of a socket when it is shut down for writing. A
 * socket that is closed before the answer has lost its sender, and nothing of it is kept.
 *
 * A root is sealed (jail_ask_seal) only while no process serves a question: a watch is cancelled
 * before, or the seal is refused.
 *
 * Answers are checked, because a tenant may control init: kinds, sizes, the number of records,
 * paths that name no place below. The rest is not: contents, names and figures of a jail are the
 * tenant's in any case. */

#include "jail/client/jail.h"
#include "jail/wire/file_wire.h"

struct arena;

/* `data_fd` for the verbs that take one, else -1; it stays the caller's and may be closed at once.
 * INVALID when the path is not absolute, TOO_LARGE for more than fits a packet. */
int jail_ask_file(struct jail *jail, const struct jail_file *question, int data_fd,
                  uint32_t *ret_id, struct err *err) MUST_USE;
/* Ends a file operation or a connect: its last event comes soon, CANCELED unless it was done
 * already. Small verbs are done when they are read; a synced write or an edit may still come to its
 * end, a recursive delete stops half-way, anything else leaves the tree as it was. */
int jail_cancel(struct jail *jail, uint32_t id, struct err *err) MUST_USE;

/* The records of a part, one after the other: false at the end. Strings stay in the event. */
bool jail_part_entry(struct str *part, struct files_entry *ret_entry); /* list */
bool jail_part_path(struct str *part, struct str *ret_path);           /* glob */
bool jail_part_match(struct str *part, struct files_match *ret_match); /* grep */
bool jail_part_event(struct str *part, struct files_event *ret_event); /* watch */

/* A TCP connection to a server inside, on 127.0.0.1 or ::1; event CONNECTED with the socket, which
 * does not block. UNAVAILABLE when nothing listens there. */
int jail_ask_connect(struct jail *jail, uint16_t port, uint32_t *ret_id, struct err *err) MUST_USE;

/* Any verb without parts, waiting. `ret_answer` has no bytes. */
int jail_file(struct jail *jail, const struct jail_file *question, int data_fd,
              struct jail_file_answer *ret_answer, struct err *err) MUST_USE;
