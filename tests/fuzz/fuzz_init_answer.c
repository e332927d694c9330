/* Packets of an init that a tenant holds, as the client reads them: one question of every kind is
 * under way. The input is packets, each behind its length in two bytes. */

#include "fuzz.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/client/client.h"

static struct warden_link line = {.fd = -1, .helper_fd = -1, .out = {.limit = WIRE_MAX}};

static void ask_everything(struct jail *jail, int null)
{
    static const char *const argv[] = {"true", NULL};
    static const enum jail_file_verb verbs[] = {JAIL_FILE_STAT,  JAIL_FILE_READ,   JAIL_FILE_STAT,
                                                JAIL_FILE_LIST,  JAIL_FILE_GLOB,   JAIL_FILE_GREP,
                                                JAIL_FILE_WATCH, JAIL_FILE_TAR_OUT};
    struct err err = {0};
    uint32_t id;
    int done = 0, fds[] = {null, null, null};
    struct jail_command plain = {.argv = argv}, tty = {.argv = argv, .tty = true};
    done |= jail_ask_start(jail, &plain, fds, &id, &err);
    done |= jail_ask_start(jail, &tty, NULL, &id, &err);
    done |= jail_ask_signal(jail, 1, 15, &id, &err);
    done |= jail_ask_connect(jail, 80, &id, &err);
    for (size_t i = 0; i < countof(verbs); i++) {
        struct jail_file question = {.verb = verbs[i], .path = STR("/a"), .limit = 8};
        done |= jail_ask_file(jail, &question, null, &id, &err);
    }
    assert(done == 0);
}

/* What was let in can be read to its end. */
static void use(const struct jail_event *event)
{
    if (event->type == JAIL_EVENT_FILE)
        assert(event->file->bytes.len <= FILES_PATH_MAX);
    if (event->type != JAIL_EVENT_PART)
        return;
    struct files_entry entry;
    struct files_match match;
    struct files_event news;
    struct str path, parts[] = {event->part, event->part, event->part, event->part};
    while (jail_part_entry(&parts[0], &entry))
        assert(entry.path.len > 0);
    while (jail_part_path(&parts[1], &path))
        assert(path.len > 0 && path.ptr[0] != '/');
    while (jail_part_match(&parts[2], &match))
        assert(match.text.len <= FILES_GREP_LINE_MAX);
    while (jail_part_event(&parts[3], &news))
        assert(news.type <= FILES_EVENT_GONE);
    bool all = false;
    for (size_t i = 0; i < countof(parts); i++)
        all |= parts[i].len == 0;
    assert(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    struct err err;
    struct jail_event event;
    if (line.helper_fd < 0)
        line.helper_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    AUTO_CLOSE int peer = pair[1];
    AUTO_JAIL struct jail *jail =
        jail_new(&line, 1, (int[WIRE_FDS_MAX]){-1, pair[0], -1, -1, -1, -1, -1, -1});
    jail->ended = true; /* no warden knows it */
    ask_everything(jail, line.helper_fd);
    while (size >= 2) {
        size_t len = MIN((size_t)(data[0] | data[1] << 8), size - 2);
        struct str packet = str_n((const char *)data + 2, len);
        bool with_fd = len > 0 && data[2] % 2 == 1;
        if (wire_try_send(peer, packet, &line.helper_fd, with_fd, &err) != 1)
            break;
        while (jail_next(jail, &event)) {
            use(&event);
            fd_close(&event.fd);
        }
        data += 2 + len;
        size -= 2 + len;
    }
    return 0;
}
