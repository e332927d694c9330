/* An interpreter that says what no interpreter of ours would: only its socket, without a jail. */

#include "test.h"

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "kernel/frame.h"
#include "runtime/interpreter.h"

/* Memory is not counted then. */
#if defined(__SANITIZE_ADDRESS__)
static const bool is_sanitized = true;
#elif defined(__has_feature)
static const bool is_sanitized = __has_feature(address_sanitizer);
#else
static const bool is_sanitized = false;
#endif

struct line {
    struct interpreter *interpreter;
    int inner[3];
    struct interpreter_event last;
    size_t displays, errors, dones, others;
    size_t held_max; /* bytes of memory, over what was held before */
};

static void line_close(struct line *line)
{
    for (int i = 0; i < 3; i++)
        fd_close(&line->inner[i]);
    line->interpreter = interpreter_free(line->interpreter);
}
#define AUTO_LINE AUTO(line_close)

static void line_open(struct line *line)
{
    struct err err = {0};
    CHECK_OK(interpreter_open(&line->interpreter, line->inner, &err));
}

static void run(struct line *line)
{
    struct err err = {0};
    CHECK_OK(interpreter_run(line->interpreter, STR("1"), STR("python"), (struct str){0}, &err));
}

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void listen_to(struct line *line)
{
    struct interpreter_event event;
    while (interpreter_next(line->interpreter, &event)) {
        line->last = event;
        line->displays += line->last.type == INTERPRETER_DISPLAY;
        line->errors += line->last.type == INTERPRETER_ERROR;
        line->dones += line->last.type == INTERPRETER_DONE;
        line->others += line->last.type != INTERPRETER_DISPLAY &&
                        line->last.type != INTERPRETER_ERROR && line->last.type != INTERPRETER_DONE;
        if (line->last.type == INTERPRETER_GONE)
            return;
    }
}

/* All of it, while it is read. */
static void say(struct line *line, struct str bytes)
{
    size_t before = in_use();
    while (bytes.len > 0) {
        ssize_t sent = send(line->inner[0], bytes.ptr, MIN(bytes.len, (size_t)64 << 10),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
            bytes = str_slice(bytes, (size_t)sent, bytes.len);
        listen_to(line);
        size_t now = in_use();
        line->held_max = MAX(line->held_max, now - MIN(now, before));
    }
}

static void say_head(struct line *line, uint32_t size, uint32_t type, uint32_t id)
{
    unsigned char head[FRAME_HEAD] = {
        (unsigned char)size,
        (unsigned char)(size >> 8),
        (unsigned char)(size >> 16),
        (unsigned char)(size >> 24),
        (unsigned char)type,
        0,
        FRAME_FLAG_MAIN,
        0,
        (unsigned char)id,
    };
    say(line, str_n((const char *)head, sizeof head));
}

static void say_done(struct line *line, uint32_t id)
{
    AUTO_BUF struct buf frame = {0};
    frame_write_numbers(&frame, FRAME_DONE, id, (uint32_t[]){1, 1}, 2);
    say(line, buf_str(&frame));
}

static char filler[1 << 20];

static void say_filler(struct line *line, size_t mib)
{
    for (size_t i = 0; i < mib; i++)
        say(line, str_n(filler, sizeof filler));
}

TEST(a_value_that_nobody_would_keep_is_never_in_memory)
{
    AUTO_LINE struct line line = {0};
    line_open(&line);
    run(&line);
    say_head(&line, 40 << 20, FRAME_DISPLAY, 1);
    say_filler(&line, 40);
    CHECK_INT(line.displays, 1);
    CHECK(line.last.part_count == 0 && line.last.main);
    CHECK(is_sanitized || line.held_max < 2 << 20);
    say_done(&line, 1);
    CHECK_INT(line.dones, 1);
    CHECK_INT(line.others, 0);
}

/* A run has a time limit; without one the memory could be held forever. */
TEST(who_runs_no_code_has_little_room)
{
    AUTO_LINE struct line line = {0};
    line_open(&line);
    say_head(&line, 2 << 20, FRAME_DISPLAY, 0);
    say_filler(&line, 2);
    CHECK_INT(line.displays, 1);
    CHECK_INT(line.last.part_count, 0);
    run(&line);
    say_done(&line, 1);
    CHECK_INT(line.dones, 1);
}

TEST(memory_of_a_large_value_is_given_back)
{
    AUTO_LINE struct line line = {0};
    AUTO_BUF struct buf frame = {0};
    line_open(&line);
    run(&line);
    frame_write(&frame, FRAME_ERROR, 1,
                (struct str[]){STR("E"), str_n(filler, sizeof filler), STR(""), STR("")}, 4);
    size_t before = in_use();
    for (int i = 0; i < 8; i++)
        say(&line, buf_str(&frame));
    CHECK_INT(line.errors, 8);
    say_done(&line, 1);
    CHECK(is_sanitized || in_use() < before + (1 << 20));
}

TEST(an_error_that_is_too_long_is_reported_without_its_text)
{
    AUTO_LINE struct line line = {0};
    line_open(&line);
    run(&line);
    say_head(&line, 30 << 20, FRAME_ERROR, 1);
    say_filler(&line, 30);
    CHECK_INT(line.errors, 1);
    CHECK(line.last.message.len < 200);
    say_done(&line, 1);
    CHECK_INT(line.dones, 1);
}

TEST(a_flood_of_small_frames_is_reported_one_by_one)
{
    AUTO_LINE struct line line = {0};
    AUTO_BUF struct buf frames = {0};
    line_open(&line);
    run(&line);
    for (int i = 0; i < 100000; i++)
        frame_write_numbers(&frames, FRAME_DISPLAY, 1, (uint32_t[]){0}, 1);
    say(&line, buf_str(&frames));
    CHECK_INT(line.displays, 100000);
    say_done(&line, 1);
    CHECK_INT(line.dones, 1);
}

static void nonsense(uint32_t size, uint32_t type, uint32_t id)
{
    AUTO_LINE struct line line = {0};
    line_open(&line);
    run(&line);
    say_head(&line, size, type, id);
    for (size_t i = 0; i < size / sizeof filler && size <= FRAME_MAX; i++)
        say(&line, str_n(filler, sizeof filler));
    if (size < sizeof filler)
        say(&line, str_n(filler, size));
    CHECK_INT(line.last.type, INTERPRETER_GONE);
    CHECK(!interpreter_is_busy(line.interpreter));
}

TEST(who_makes_no_sense_is_gone)
{
    nonsense(0xffffffff, FRAME_DISPLAY, 1);
    nonsense(FRAME_MAX + 1, FRAME_DISPLAY, 1);
    nonsense(8, FRAME_DONE, 2);          /* of a run that never was */
    nonsense(4, FRAME_DONE, 1);          /* without its result */
    nonsense(8, FRAME_COPIED, 0);        /* nobody asked */
    nonsense(4, FRAME_QUIESCED, 0);      /* the same */
    nonsense(8, FRAME_RUN, 0);           /* our own word */
    nonsense(0, 77, 0);                  /* unknown type */
    nonsense(20 << 20, FRAME_READY, 0);  /* a long version */
    nonsense(20 << 20, FRAME_COPIED, 0); /* a long reason */
    nonsense(3, FRAME_DISPLAY, 1);       /* a part of a number */
}

TEST(an_answer_counts_once)
{
    AUTO_LINE struct line line = {0};
    AUTO_BUF struct buf frame = {0};
    struct err err = {0};
    line_open(&line);
    frame_write_numbers(&frame, FRAME_QUIESCED, 0, (uint32_t[]){1}, 1);
    CHECK_OK(interpreter_quiesce(line.interpreter, &err));
    interpreter_go_back(line.interpreter);
    say(&line, buf_str(&frame)); /* late, and valid */
    CHECK_INT(line.last.type, INTERPRETER_QUIESCED);
    CHECK(line.last.ok);
    say(&line, buf_str(&frame));
    CHECK_INT(line.last.type, INTERPRETER_GONE);
}

/* What is sent to it lies here until it reads: who answers and never reads would have us keep the
 * code of every run. */
TEST(who_answers_what_it_has_not_read_is_gone)
{
    AUTO_LINE struct line line = {0};
    struct str code = str_n(filler, sizeof filler);
    struct err err = {0};
    size_t before = in_use();
    line_open(&line);
    for (uint32_t id = 1; id <= 100 && line.last.type != INTERPRETER_GONE; id++) {
        CHECK_OK(interpreter_run(line.interpreter, code, STR("python"), (struct str){0}, &err));
        say_done(&line, id);
    }
    CHECK_INT(line.last.type, INTERPRETER_GONE);
    CHECK_INT(line.dones, 0);
    CHECK(is_sanitized || in_use() < before + (4 << 20));
}

TEST(descriptors_that_come_along_are_closed)
{
    AUTO_LINE struct line line = {0};
    union {
        char space[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(4 * sizeof(int));
    memcpy(CMSG_DATA(head), (int[]){0, 1, 2, 0}, 4 * sizeof(int));
    line_open(&line);
    int before = test_open_fds();
    CHECK_INT(sendmsg(line.inner[0], &message, MSG_NOSIGNAL), 1);
    listen_to(&line);
    CHECK_INT(test_open_fds(), before);
}
