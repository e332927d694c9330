#pragma once

/* Files of a running jail. Its init does the work inside, as the jail's uid in its mount namespace:
 * a path means what it means to the programs in there, and leads to nothing they could not reach.
 * The daemon opens no path of a tenant and parses none of its files.
 *
 * jail_ask_file() takes any question and never waits; see jail/file_wire.h for what each verb takes
 * and gives. Events (jail/jail.h): JAIL_EVENT_PART any number of times for list, glob, grep and
 * watch, then one JAIL_EVENT_FILE, or JAIL_EVENT_FAILED. Any number may be under way; a slow one
 * holds up no other, and jail_cancel() ends it. The small verbs need no process inside, so they
 * still work in a jail that has none left.
 *
 * Contents of up to JAIL_FILE_BYTES_MAX bytes travel in the packets. More goes through a pipe,
 * socket or file that comes with the question: the jail reads from it or writes to it at the pace
 * of the other side, and nothing of it passes through the memory of the daemon. An upload is
 * complete at the end of the stream: of a pipe when it is closed, so name the size (`expected`) or
 * cancel, else what is cut short counts as all; of a socket when it is shut down for writing. A
 * socket that is closed before the answer has lost its sender, and nothing of it is kept.
 *
 * After jail_relayer every question means the new root; one that was under way, a watch above all,
 * goes on with the old one: cancel it and ask again.
 *
 * What an init in the hands of a tenant could answer is checked: kinds, sizes, the number of
 * records, paths that name no place below. The rest is its word: contents, names and figures of a
 * jail are the tenant's in any case. */

#include "jail/file_wire.h"
#include "jail/jail.h"

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

/* --- the same, waiting: each as its namesake in files/ --- */

int jail_connect(struct jail *jail, uint16_t port, struct err *err) MUST_USE; /* a descriptor */

/* Any verb without parts. `ret_answer` has no bytes. */
int jail_file(struct jail *jail, const struct jail_file *question, int data_fd,
              struct jail_file_answer *ret_answer, struct err *err) MUST_USE;

int jail_file_stat(struct jail *jail, struct str path, bool follow, struct files_stat *ret_stat,
                   struct err *err) MUST_USE;
int jail_file_exists(struct jail *jail, struct str path, bool *ret_exists,
                     struct err *err) MUST_USE;
/* At most JAIL_FILE_BYTES_MAX; more with JAIL_FILE_READ_TO. */
int jail_file_read(struct jail *jail, struct str path, const struct files_range *range,
                   struct buf *out, struct files_content *ret_content, struct err *err) MUST_USE;
/* At most JAIL_FILE_BYTES_MAX; more with JAIL_FILE_WRITE_FROM. Safe against a power cut only when
 * the options do not say no_sync. */
int jail_file_write(struct jail *jail, struct str path, struct str bytes,
                    const struct files_write_options *options, bool *ret_created,
                    struct err *err) MUST_USE;
int jail_file_readlink(struct jail *jail, struct str path, struct arena *arena,
                       struct str *ret_target, struct err *err) MUST_USE;
int jail_file_list(struct jail *jail, struct str path, const struct files_list_options *options,
                   struct arena *arena, struct files_list *ret_list, struct err *err) MUST_USE;
int jail_file_glob(struct jail *jail, struct str dir, struct str pattern,
                   const struct files_glob_options *options, struct arena *arena,
                   struct files_glob *ret_glob, struct err *err) MUST_USE;
int jail_file_grep(struct jail *jail, struct str path, struct str pattern,
                   const struct files_grep_options *options, struct arena *arena,
                   struct files_grep *ret_grep, struct err *err) MUST_USE;
