/* Jails as an event loop uses them: asked without waiting, answered by events. */

#include "place.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/client/files.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"
#include "jail/wire/wire.h"
#include "waiting.h"

TEST(many_jails_are_made_at_once)
{
    enum { COUNT = 10 };
    struct err err = {0};
    struct jail_plan plan = place_plan((struct jail_plan){0});
    uint32_t requests[COUNT], ends[COUNT];
    struct jail *jails[COUNT] = {0};
    struct warden_event event;
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(warden_ask_make(place_warden(), &plan, &requests[i], &err));
    for (int i = 0; i < COUNT; i++) {
        place_warden_next(place_warden(), &event);
        CHECK_INT(event.type, WARDEN_EVENT_MADE);
        for (int j = 0; j < COUNT; j++)
            if (event.request == requests[j])
                jails[j] = event.jail;
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(jails[i] != NULL);
        CHECK_OK(jail_ask_end(jails[i], &ends[i], &err));
        CHECK_ERR(jail_ask_end(jails[i], &ends[i], &err), ERR_GONE);
        jails[i] = jail_free(jails[i]); /* before its answer: fine */
    }
    for (int i = 0; i < COUNT; i++) {
        place_warden_next(place_warden(), &event);
        CHECK_INT(event.type, WARDEN_EVENT_STATS);
    }
    CHECK(!warden_next(place_warden(), &event));
}

TEST(requests_that_fail_say_why)
{
    struct err err = {0};
    struct jail_plan plan = place_plan((struct jail_plan){.mount_count = 1});
    struct warden_event event;
    uint32_t request;
    plan.mounts[0] = (struct jail_mount){.src = "/no/such/source", .dst = "/mnt/x"};
    CHECK_OK(warden_ask_make(place_warden(), &plan, &request, &err));
    place_warden_next(place_warden(), &event);
    CHECK_INT(event.type, WARDEN_EVENT_FAILED);
    CHECK_INT(event.request, request);
    CHECK_INT(event.err.code, ERR_NOT_FOUND);
    struct jail_plan wrong = {.hostname = "no spaces"};
    CHECK_ERR(warden_ask_make(place_warden(), &wrong, &request, &err), ERR_INVALID);
}

/* A call that waits leaves the events of others where they are. */
TEST(waiting_calls_keep_the_events_of_others)
{
    struct err err = {0};
    struct jail_plan plan = place_plan((struct jail_plan){0});
    struct warden_event event;
    uint32_t request;
    AUTO_JAIL struct jail *waited = NULL;
    CHECK_OK(warden_ask_make(place_warden(), &plan, &request, &err));
    CHECK_OK(jail_make(place_warden(), &plan, &waited, &err));
    place_warden_next(place_warden(), &event);
    CHECK_INT(event.request, request);
    AUTO_JAIL struct jail *asked = event.jail;
    CHECK_CSTR(place_shell(asked, "echo one", NULL), "one\n");
    CHECK_CSTR(place_shell(waited, "echo two", NULL), "two\n");
}

TEST(a_command_starts_and_exits_as_events)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c", "exit 3", NULL}, *none[] = {"no-such-program", NULL};
    uint32_t id, bad, signal_id;
    struct jail_event event;
    int fds[] = {null, null, null};
    CHECK_OK(jail_ask_start(jail, &(struct jail_command){.argv = argv}, fds, &id, &err));
    CHECK_OK(jail_ask_start(jail, &(struct jail_command){.argv = none}, fds, &bad, &err));
    CHECK_OK(jail_ask_signal(jail, 4711, SIGTERM, &signal_id, &err));
    bool started = false, refused = false, failed = false, exited = false;
    for (int i = 0; i < 4; i++) {
        place_next(jail, &event);
        started |= event.type == JAIL_EVENT_STARTED && event.id == id;
        refused |= event.type == JAIL_EVENT_REFUSED && event.id == bad &&
                   strstr(event.err.msg, "no program 'no-such-program'") != NULL;
        failed |= event.type == JAIL_EVENT_FAILED && event.id == signal_id &&
                  event.err.code == ERR_NOT_FOUND;
        exited |= event.type == JAIL_EVENT_EXITED && event.id == id && event.exit.code == 3;
    }
    CHECK(started && refused && failed && exited);
    CHECK(!jail_next(jail, &event));
}

TEST(the_verdict_on_memory_follows_the_kills)
{
    static const struct {
        int code, signal;
        int64_t own_kills, jail_kills;
        bool is_oom;
    } rows[] = {
        {0, SIGKILL, -1, 1, true},       /* without a group: the jail's kills */
        {128 + SIGKILL, 0, -1, 1, true}, /* as a shell reports it */
        {0, SIGKILL, -1, 0, false},      /* killed by another process */
        {0, SIGKILL, -1, -1, false},     /* not known */
        {3, 0, -1, 1, false},            /* another process of the jail */
        {0, SIGTERM, -1, 1, false},      /* likewise */
        {0, SIGKILL, 0, 1, false},       /* its group knows that it was another one */
        {0, SIGKILL, 1, 0, true},        /* its own group */
        {3, 0, 1, 0, true},              /* a process of it, for which it failed */
        {0, 0, 1, 1, false},             /* it coped with that */
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct jail_exit exit = {
            .code = rows[i].code, .signal = rows[i].signal, .oom_kills = rows[i].own_kills};
        CHECK_INT(jail_exit_is_oom(&exit, rows[i].jail_kills), rows[i].is_oom);
    }
}

TEST(a_terminal_can_be_resized)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    const char *argv[] = {"bash", "-c",
                          "trap 'stty size; exit 0' WINCH; echo go; while :; do sleep 0.05; done",
                          NULL};
    uint32_t id;
    struct jail_event event;
    char text[512] = {0};
    CHECK_OK(
        jail_ask_start(jail, &(struct jail_command){.argv = argv, .tty = true}, NULL, &id, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_STARTED);
    AUTO_CLOSE int tty = event.fd;
    CHECK(read(tty, text, sizeof text - 1) > 0);
    CHECK(strstr(text, "go") != NULL);
    CHECK_OK(jail_resize(tty, 41, 133, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_EXITED);
    CHECK(read(tty, text, sizeof text - 1) > 0);
    CHECK(strstr(text, "41 133") != NULL);
    CHECK_ERR(jail_resize(jail_fd(jail), 1, 1, &err), ERR_INVALID);
}

/* Nobody reads inside, so the socket fills up: asking goes on without waiting, up to a limit. */
TEST(asking_never_waits)
{
    struct err err = {0};
    int peer;
    AUTO_JAIL struct jail *jail = place_fake(&peer);
    AUTO_CLOSE int other = peer;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    static char word[64 << 10], in[WIRE_MAX];
    memset(word, 'x', sizeof word - 1);
    const char *argv[] = {"true", word, NULL};
    struct jail_command command = {.argv = argv};
    int fds[WIRE_FDS_MAX] = {null, null, null}, before = test_open_fds();
    uint32_t first, last = 0, count = 0;
    CHECK_OK(jail_ask_start(jail, &command, fds, &first, &err));
    while (jail_ask_start(jail, &command, fds, &last, &err) == 0)
        count++;
    CHECK_INT(err.code, ERR_BUSY);
    CHECK(jail_wants_write(jail));
    CHECK(count > 20);
    struct jail_event event;
    for (uint32_t id = first; id <= last; id++) {
        (void)jail_next(jail, &event); /* sends what fits now */
        struct wire_head head;
        ssize_t len = wire_recv(other, in, fds, false, &err);
        CHECK(len > 0);
        (void)wire_open(str_n(in, (size_t)len), &head);
        CHECK_INT(head.id, id);
        CHECK(fds[2] >= 0);
        wire_close_fds(fds);
    }
    CHECK(!jail_wants_write(jail));
    CHECK_INT(test_open_fds(), before);
}

TEST(operations_under_way_are_limited)
{
    struct err err = {0};
    int peer;
    AUTO_JAIL struct jail *jail = place_fake(&peer);
    AUTO_CLOSE int other = peer;
    CHECK(other >= 0);
    uint32_t id;
    for (int i = 0; i < JAIL_ASKED_MAX; i++)
        CHECK_OK(jail_ask_signal(jail, 1, 0, &id, &err));
    CHECK_ERR(jail_ask_signal(jail, 1, 0, &id, &err), ERR_BUSY);
}

TEST(the_end_of_a_jail_is_reported_once)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_event event;
    uint32_t id;
    CHECK_INT(k_pidfd_send_signal(jail_pidfd(jail), SIGKILL), 0);
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_GONE);
    CHECK(!jail_next(jail, &event));
    CHECK_ERR(jail_ask_signal(jail, 0, SIGTERM, &id, &err), ERR_GONE);
}

TEST(the_end_of_a_warden_is_reported_once)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *own = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = place_plan((struct jail_plan){0});
    struct warden_event event;
    struct jail_event news;
    uint32_t request;
    CHECK_OK(warden_start(&own, &err));
    CHECK_OK(jail_make(own, &plan, &jail, &err));
    CHECK_INT(kill(warden_pid(own), SIGKILL), 0);
    place_warden_next(own, &event);
    CHECK_INT(event.type, WARDEN_EVENT_GONE);
    CHECK(!warden_next(own, &event));
    CHECK_ERR(warden_ask_make(own, &plan, &request, &err), ERR_UNAVAILABLE);
    place_next(jail, &news);
    CHECK_INT(news.type, JAIL_EVENT_GONE);
    jail = jail_free(jail); /* says so to a warden that is no more: no harm */
}

/* What an init in the hands of a tenant could say. */
static void say(int peer, uint32_t type, uint32_t id, size_t numbers, const int *fds, size_t count)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    struct err err = {0};
    wire_begin(&out, type, id);
    for (size_t i = 0; i < numbers; i++)
        wire_put_u32(&out, 0);
    CHECK_OK(wire_send(peer, buf_str(&out), fds, count, &err));
}

TEST(answers_that_fit_no_question_end_the_line)
{
    static const struct {
        uint32_t type, id;
        size_t numbers;
        bool tty;
    } bad[] = {
        {INIT_EXITED, 1, 10, false}, /* never started */
        {INIT_STARTED, 2, 1, false}, /* nobody asked */
        {INIT_STARTED, 1, 0, false}, /* too short */
        {INIT_STARTED, 1, 2, false}, /* too long */
        {INIT_STARTED, 1, 1, true},  /* no terminal */
        {INIT_DONE, 1, 1, false},    /* of another kind */
        {INIT_READY, 0, 0, false},   /* said before */
        {999, 1, 0, false},          /* no such message */
        {INIT_REFUSED, 1, 3, false}, /* too long */
    };
    struct err err = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"true", NULL};
    for (size_t i = 0; i < countof(bad); i++) {
        int peer;
        uint32_t id;
        struct jail_event event;
        AUTO_JAIL struct jail *jail = place_fake(&peer);
        AUTO_CLOSE int other = peer;
        struct jail_command command = {.argv = argv, .tty = bad[i].tty};
        CHECK_OK(jail_ask_start(jail, &command, (int[]){null, null, null}, &id, &err));
        int before = test_open_fds();
        say(other, bad[i].type, bad[i].id, bad[i].numbers, (int[]){null, null}, 2);
        place_next(jail, &event);
        CHECK_INT(event.type, JAIL_EVENT_GONE);
        CHECK(strstr(event.err.msg, "does not answer") != NULL);
        CHECK_INT(test_open_fds(), before);
        CHECK(!jail_next(jail, &event));
    }
}

/* Descriptors that nobody asked for are closed, be the answer good. */
TEST(descriptors_nobody_asked_for_are_closed)
{
    struct err err = {0};
    int peer;
    AUTO_JAIL struct jail *jail = place_fake(&peer);
    AUTO_CLOSE int other = peer;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"true", NULL};
    struct jail_event event;
    uint32_t id;
    int before = test_open_fds();
    CHECK_OK(jail_ask_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null},
                            &id, &err));
    say(other, INIT_STARTED, id, 1, (int[]){null, null, null}, 3);
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_STARTED);
    CHECK_INT(event.fd, -1);
    CHECK_INT(test_open_fds(), before);
}

#ifdef SG_FAULTS
/* A warden, a jail, a command, a search by the helper, and the end of it all. */
static int whole_life(struct err *err)
{
    AUTO_WARDEN struct warden_link *own = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_ARENA struct arena arena = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"true", NULL};
    struct jail_command command = {.argv = argv};
    struct jail_plan plan = place_plan((struct jail_plan){0});
    struct files_grep grep;
    struct jail_exit ended;
    uint32_t id;
    if (warden_start(&own, err) < 0 || jail_make(own, &plan, &jail, err) < 0 ||
        jail_start(jail, &command, (int[]){null, null, null}, &id, NULL, err) < 0 ||
        jail_wait(jail, 60000, &ended, err) < 0)
        return -1;
    return jail_file_grep(jail, STR("/workspace"), STR("x"), NULL, &arena, &grep, err);
}

TEST(whatever_call_fails_nothing_stays_behind)
{
    struct err err = {0};
    (void)place_warden(); /* the one of this program is there before we count */
    CHECK_OK(whole_life(&err));
    int fds = test_open_fds(), failed = 0;
    for (int64_t nth = 1;; nth++) {
        (void)sys_fail_at(nth);
        int done = whole_life(&err);
        int64_t calls = sys_fail_at(0);
        CHECK_INT(test_open_fds(), fds);
        failed += done < 0;
        if (calls < nth)
            break;
    }
    CHECK(failed > 10);
}
#endif
