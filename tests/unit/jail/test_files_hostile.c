/* What an init in the hands of a tenant could answer to a question about files. */

#include "place.h"
#include "test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/files.h"
#include "jail/wire/init.h"

/* A question, its made-up answer, and whether that is let in. */
static void answer(const struct jail_file *question, uint32_t type, struct str body,
                   enum jail_event_type expected)
{
    struct err err = {0};
    int peer;
    uint32_t id;
    struct jail_event event;
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    AUTO_JAIL struct jail *jail = place_fake(&peer);
    AUTO_CLOSE int other = peer;
    CHECK_OK(jail_ask_file(jail, question, -1, &id, &err));
    int before = test_open_fds();
    wire_begin(&out, type, id);
    buf_put(&out, body);
    CHECK_OK(wire_send(other, buf_str(&out), &other, 1, &err)); /* and a descriptor of no use */
    place_next(jail, &event);
    CHECK_INT(event.type, expected);
    CHECK_INT(event.fd, -1);
    CHECK_INT(test_open_fds(), before);
}

static struct str answer_body(struct buf *out, const struct jail_file_answer *answer_)
{
    buf_clear(out);
    file_put_answer(out, answer_);
    return buf_str(out);
}

TEST(answers_are_held_to_kinds_and_sizes)
{
    AUTO_BUF struct buf body = {0};
    static char big[JAIL_FILE_BYTES_MAX + 1];
    struct jail_file stat = {.verb = JAIL_FILE_STAT, .path = STR("/a"), .follow = true};
    struct jail_file read = {.verb = JAIL_FILE_READ, .path = STR("/a"), .limit = 100};
    struct jail_file_answer good = {.stat.mode = 0644, .stat.size = 5};
    answer(&stat, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_FILE);
    good.stat.type = (enum files_type)99;
    answer(&stat, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    good.stat = (struct files_stat){.mode = 0100644};
    answer(&stat, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    good.stat = (struct files_stat){.size = UINT64_MAX};
    answer(&stat, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    good.stat = (struct files_stat){0};
    good.bytes = STR("x"); /* nobody asked for bytes */
    answer(&stat, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    good.bytes = str_n(big, 100);
    answer(&read, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_FILE);
    good.bytes = str_n(big, 101);
    answer(&read, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    read.limit = 0;
    good.bytes = str_n(big, sizeof big);
    answer(&read, INIT_ANSWER, answer_body(&body, &good), JAIL_EVENT_GONE);
    good.bytes = (struct str){0};
    struct str whole = answer_body(&body, &good);
    for (size_t len = 0; len < whole.len; len++)
        answer(&stat, INIT_ANSWER, str_slice(whole, 0, len), JAIL_EVENT_GONE);
    answer(&stat, INIT_DONE, STR("\0\0\0\0"), JAIL_EVENT_GONE);
    answer(&stat, INIT_CONNECTED, STR(""), JAIL_EVENT_GONE);
    answer(&stat, INIT_PART, STR("\0\0\0\0"), JAIL_EVENT_GONE);
}

TEST(records_are_held_to_the_question)
{
    static const char *const bad[] = {"",     "/etc/passwd", "..", "../x", "a/../b",
                                      "a//b", "./a",         "a/", "a/.",  "x\n"};
    AUTO_BUF struct buf body = {0};
    struct jail_file list = {.verb = JAIL_FILE_LIST, .path = STR("/a"), .limit = 2};
    struct jail_file glob = {.verb = JAIL_FILE_GLOB, .path = STR("/a"), .pattern = STR("*")};
    for (size_t i = 0; i < countof(bad); i++) {
        buf_clear(&body);
        file_put_path(&body, str_of(bad[i]));
        /* The last one is a name like any other. */
        bool is_good = i + 1 == countof(bad);
        answer(&glob, INIT_PART, buf_str(&body), is_good ? JAIL_EVENT_PART : JAIL_EVENT_GONE);
    }
    buf_clear(&body);
    file_put_path(&body, STR("a\0b"));
    answer(&glob, INIT_PART, buf_str(&body), JAIL_EVENT_GONE);
    buf_clear(&body);
    for (int i = 0; i < 3; i++) {
        file_put_entry(&body, &(struct files_entry){.path = STR("name")});
        answer(&list, INIT_PART, buf_str(&body), i < 2 ? JAIL_EVENT_PART : JAIL_EVENT_GONE);
    }
    answer(&list, INIT_PART, STR(""), JAIL_EVENT_GONE); /* an empty part, forever */
    answer(&list, INIT_PART, STR("\xff\xff\xff\xff\xff\xff\xff\xff"), JAIL_EVENT_GONE);
}

TEST(the_words_of_a_failure_are_plain)
{
    struct err err = {0};
    int peer;
    uint32_t id;
    struct jail_event event;
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    AUTO_JAIL struct jail *jail = place_fake(&peer);
    AUTO_CLOSE int other = peer;
    struct jail_file stat = {.verb = JAIL_FILE_STAT, .path = STR("/a")};
    CHECK_OK(jail_ask_file(jail, &stat, -1, &id, &err));
    struct err lie = {.code = ERR_NONE, .msg = "\033[2J\r\n\xff\xfe good"};
    wire_begin(&out, INIT_FAILED, id);
    wire_put_err(&out, &lie);
    CHECK_OK(wire_send(other, buf_str(&out), NULL, 0, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_FAILED);
    CHECK_INT(event.err.code, ERR_INTERNAL);
    CHECK_CSTR(event.err.msg, "?[2J???? good");
}

/* Answers to a connect: only a TCP stream is taken. */
TEST(only_streams_count_as_connections)
{
    struct err err = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    AUTO_CLOSE int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(listen(listens, 1), 0);
    const int fds[] = {null, local, udp, listens, -1, tcp};
    for (size_t i = 0; i < countof(fds); i++) {
        int peer;
        uint32_t id;
        struct jail_event event;
        AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
        AUTO_JAIL struct jail *jail = place_fake(&peer);
        AUTO_CLOSE int other = peer;
        CHECK_OK(jail_ask_connect(jail, 80, &id, &err));
        int before = test_open_fds();
        wire_begin(&out, INIT_CONNECTED, id);
        CHECK_OK(wire_send(other, buf_str(&out), &fds[i], fds[i] >= 0, &err));
        place_next(jail, &event);
        bool is_good = fds[i] == tcp;
        CHECK_INT(event.type, is_good ? JAIL_EVENT_CONNECTED : JAIL_EVENT_GONE);
        AUTO_CLOSE int got = event.fd;
        CHECK_INT(got >= 0, is_good);
        CHECK_INT(test_open_fds(), before + is_good);
    }
}
