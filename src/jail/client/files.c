#include "jail/client/files.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "jail/client/client.h"
#include "jail/wire/init.h"
#include "jail/wire/init_program.h"
#include "jail/wire/linux.h"

/* --- questions --- */

/* The helper may be executed but not read, so a process that runs it cannot be inspected, not even
 * before its first instruction. */
static int load_helper(struct err *err)
{
    return fd_sealed_program("files", helper_program[0].bytes, 0111, err);
}

static bool takes_data(enum jail_file_verb verb)
{
    return verb == JAIL_FILE_READ_TO || verb == JAIL_FILE_WRITE_FROM || verb == JAIL_FILE_TAR_IN ||
           verb == JAIL_FILE_TAR_OUT || verb == JAIL_FILE_DIFF;
}

static bool needs_helper(enum jail_file_verb verb)
{
    return verb == JAIL_FILE_GREP || verb == JAIL_FILE_TAR_IN || verb == JAIL_FILE_TAR_OUT ||
           verb == JAIL_FILE_DIFF;
}

static int check_path(struct str path, struct err *err)
{
    if (path.len == 0 || path.ptr[0] != '/')
        return err_set(err, ERR_INVALID, "'%.*s' is not absolute; paths in a sandbox begin with /",
                       STR_ARG(path));
    if (path.len >= FILES_PATH_MAX)
        return err_set(err, ERR_INVALID, "the path has %zu bytes; the limit is %d", path.len,
                       FILES_PATH_MAX - 1);
    return 0;
}

static int check_question(const struct jail_file *question, int data_fd, struct err *err)
{
    if (check_path(question->path, err) < 0)
        return -1;
    if (question->verb == JAIL_FILE_RENAME && check_path(question->to, err) < 0)
        return -1;
    if (question->to.len >= FILES_PATH_MAX)
        return err_set(err, ERR_INVALID, "the link target has %zu bytes; the limit is %d",
                       question->to.len, FILES_PATH_MAX - 1);
    if (question->bytes.len > JAIL_FILE_BYTES_MAX ||
        question->with.len > JAIL_FILE_BYTES_MAX - question->bytes.len)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes in one request%s",
                       JAIL_FILE_BYTES_MAX,
                       question->verb == JAIL_FILE_WRITE ? "; send them through a descriptor" : "");
    if (takes_data(question->verb) && data_fd < 0)
        return err_set(err, ERR_INVALID, "this operation needs a descriptor for its data");
    return 0;
}

/* How many records, or bytes, the answer may have. */
static uint64_t most_of(const struct jail_file *question)
{
    uint64_t limit = question->limit;
    switch (question->verb) {
    case JAIL_FILE_READ:
        return limit == 0 ? JAIL_FILE_BYTES_MAX : MIN(limit, (uint64_t)JAIL_FILE_BYTES_MAX);
    case JAIL_FILE_STAT:
        return question->follow ? 0 : FILES_PATH_MAX;
    case JAIL_FILE_LIST:
        return limit == 0 ? FILES_LIST_MAX : MIN(limit, (uint64_t)FILES_LIST_MAX);
    case JAIL_FILE_GLOB:
        return limit == 0 ? FILES_GLOB_MAX : MIN(limit, (uint64_t)FILES_LIST_MAX);
    case JAIL_FILE_GREP:
        limit = limit == 0 ? FILES_GREP_DEFAULT : MIN(limit, (uint64_t)FILES_GREP_MAX);
        return limit * (1 + 2ULL * MIN(question->context, (uint32_t)FILES_GREP_CONTEXT_MAX));
    case JAIL_FILE_WATCH:
        return UINT64_MAX;
    default:
        return 0;
    }
}

int jail_ask_file(struct jail *jail, const struct jail_file *question, int data_fd,
                  uint32_t *ret_id, struct err *err)
{
    struct warden_link *line = jail->warden;
    int fds[2];
    size_t fd_count = 0;
    if (check_question(question, data_fd, err) < 0)
        return -1;
    if (takes_data(question->verb))
        fds[fd_count++] = data_fd;
    if (needs_helper(question->verb)) {
        if (line->helper_fd < 0)
            line->helper_fd = load_helper(err);
        if (line->helper_fd < 0)
            return err_wrap(err, "load the helper");
        fds[fd_count++] = line->helper_fd;
    }
    struct asked *asked = jail_begin(jail, ASKED_FILE, (uint32_t)question->verb, err);
    if (asked == NULL)
        return -1;
    asked->verb = question->verb;
    asked->most = most_of(question);
    file_put_question(&line->out, question);
    return jail_send(jail, fds, fd_count, ret_id, err);
}

int jail_ask_connect(struct jail *jail, uint16_t port, uint32_t *ret_id, struct err *err)
{
    if (port == 0)
        return err_set(err, ERR_INVALID, "0 is not a port");
    if (jail_begin(jail, ASKED_CONNECT, INIT_CONNECT, err) == NULL)
        return -1;
    wire_put_u32(&jail->warden->out, port);
    return jail_send(jail, NULL, 0, ret_id, err);
}

int jail_cancel(struct jail *jail, uint32_t id, struct err *err)
{
    if (jail->is_gone) {
        *err = jail->why_gone;
        return -1;
    }
    const struct asked *asked = jail_find_asked(jail, id);
    if (asked == NULL || (asked->kind != ASKED_FILE && asked->kind != ASKED_CONNECT))
        return err_set(err, ERR_NOT_FOUND, "no operation %u is in progress", id);
    wire_begin(&jail->warden->out, INIT_CANCEL, id);
    return outbox_send(&jail->outbox, jail->control_fd, buf_str(&jail->warden->out), NULL, 0, err);
}

/* --- answers --- */

bool jail_part_entry(struct str *part, struct files_entry *ret_entry)
{
    struct wire_in in = {.rest = *part};
    bool is_there = part->len > 0 && file_get_entry(&in, ret_entry);
    *part = in.rest;
    return is_there;
}

bool jail_part_path(struct str *part, struct str *ret_path)
{
    struct wire_in in = {.rest = *part};
    bool is_there = part->len > 0 && file_get_path(&in, ret_path);
    *part = in.rest;
    return is_there;
}

bool jail_part_match(struct str *part, struct files_match *ret_match)
{
    struct wire_in in = {.rest = *part};
    bool is_there = part->len > 0 && file_get_match(&in, ret_match);
    *part = in.rest;
    return is_there;
}

bool jail_part_event(struct str *part, struct files_event *ret_event)
{
    struct wire_in in = {.rest = *part};
    bool is_there = part->len > 0 && file_get_event(&in, ret_event);
    *part = in.rest;
    return is_there;
}

/* One record of the kind that the verb gives; false for a verb that gives none. */
static bool skip_record(enum jail_file_verb verb, struct str *rest)
{
    struct files_entry entry;
    struct files_match match;
    struct files_event event;
    struct str path;
    switch (verb) {
    case JAIL_FILE_LIST:
        return jail_part_entry(rest, &entry);
    case JAIL_FILE_GLOB:
        return jail_part_path(rest, &path);
    case JAIL_FILE_GREP:
        return jail_part_match(rest, &match);
    case JAIL_FILE_WATCH:
        return jail_part_event(rest, &event);
    default:
        return false;
    }
}

/* Read once to the end here, so that the caller's reading cannot fail. */
bool jail_read_part(struct asked *asked, struct wire_in *in, struct jail_event *event)
{
    struct str rest = in->rest;
    if (rest.len == 0 && asked->verb != JAIL_FILE_WATCH)
        return false;
    while (rest.len > 0) {
        if (!skip_record(asked->verb, &rest) || asked->got == asked->most)
            return false;
        asked->got++;
    }
    event->type = JAIL_EVENT_PART;
    event->part = in->rest;
    return true;
}

bool jail_read_file(const struct asked *asked, struct wire_in *in, struct jail_file_answer *answer,
                    struct jail_event *event)
{
    bool has_bytes = asked->verb == JAIL_FILE_READ || asked->verb == JAIL_FILE_STAT;
    if (!file_get_answer(in, answer) || answer->bytes.len > (has_bytes ? asked->most : 0))
        return false;
    event->type = JAIL_EVENT_FILE;
    event->file = answer;
    return true;
}

/* A stream to somewhere in the jail's network, and nothing else. */
bool jail_is_connection(int fd)
{
    int type = 0, domain = 0, protocol = 0, listens = 0;
    socklen_t size = sizeof type;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
        return false;
    return type == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6) &&
           protocol == IPPROTO_TCP && listens == 0;
}

/* Untrusted text: it may contain anything that a file name may. */
bool jail_read_failed(struct wire_in *in, struct jail_event *event)
{
    event->type = JAIL_EVENT_FAILED;
    wire_get_err(in, &event->err);
    bool is_text = str_is_utf8(str_of(event->err.msg));
    for (char *at = event->err.msg; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f' || ((unsigned char)*at >= 0x80 && !is_text))
            *at = '?';
    if (event->err.code == ERR_NONE)
        event->err.code = ERR_INTERNAL;
    return wire_ended(in);
}

int jail_file(struct jail *jail, const struct jail_file *question, int data_fd,
              struct jail_file_answer *ret_answer, struct err *err)
{
    uint32_t id;
    struct jail_event event;
    if (jail_ask_file(jail, question, data_fd, &id, err) < 0)
        return -1;
    do {
        if (jail_await_answer(jail, id, &event, err) < 0)
            return -1;
    } while (event.type == JAIL_EVENT_PART);
    if (event.type == JAIL_EVENT_FAILED) {
        *err = event.err;
        return -1;
    }
    *ret_answer = *event.file;
    ret_answer->bytes = (struct str){0};
    return 0;
}
