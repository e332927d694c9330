/* Files of a living jail, through its init. */

#include "place.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/files.h"
#include "jail/wire/wire.h"
#include "waiting.h"

#define P(path) STR("/workspace/" path)

static void put(struct jail *jail, const char *path, struct str bytes)
{
    struct err err = {0};
    bool created;
    struct files_write_options options = {.make_parents = true, .no_sync = true};
    CHECK_OK(jail_file_write(jail, str_of(path), bytes, &options, &created, &err));
}

static void check_content(struct jail *jail, const char *path, const char *expected)
{
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    CHECK_OK(jail_file_read(jail, str_of(path), NULL, &bytes, &content, &err));
    CHECK_CSTR(buf_cstr(&bytes), expected);
}

static int ask(struct jail *jail, struct jail_file question, struct jail_file_answer *answer,
               struct err *err)
{
    return jail_file(jail, &question, -1, answer, err);
}

TEST(small_verbs_do_what_they_say)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_file_answer answer;
    struct files_stat stat;
    bool created = false;

    CHECK_ERR(jail_file_stat(jail, P("a"), true, &stat, &err), ERR_NOT_FOUND);
    CHECK_OK(jail_file_write(jail, P("a"), STR("hello"), NULL, &created, &err)); /* synced */
    CHECK(created);
    CHECK_OK(jail_file_write(jail, P("a"), STR("hello!"),
                             &(struct files_write_options){.no_sync = true}, &created, &err));
    CHECK(!created);
    CHECK_CSTR(place_shell(jail, "cat a; stat -c ' %a %u' a", NULL), "hello! 644 1000\n");
    CHECK_OK(jail_file_stat(jail, P("a"), true, &stat, &err));
    CHECK_INT(stat.type, FILES_REGULAR);
    CHECK_INT(stat.size, 6);
    CHECK_INT(stat.uid, JAIL_UID);

    CHECK_OK(ask(
        jail, (struct jail_file){.verb = JAIL_FILE_APPEND, .path = P("a"), .bytes = STR(" more")},
        &answer, &err));
    CHECK_INT(answer.size, 11);
    check_content(jail, "/workspace/a", "hello! more");
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_MKDIR, .path = P("d/e"), .parents = true},
                 &answer, &err));
    CHECK_OK(ask(jail, (struct jail_file){.verb = JAIL_FILE_RENAME, .path = P("a"), .to = P("d/b")},
                 &answer, &err));
    CHECK_OK(ask(jail, (struct jail_file){.verb = JAIL_FILE_CHMOD, .path = P("d/b"), .mode = 0700},
                 &answer, &err));
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_SYMLINK, .path = P("l"), .to = STR("d/b")},
                 &answer, &err));
    uint32_t id;
    struct jail_event event;
    CHECK_OK(jail_ask_file(jail, &(struct jail_file){.verb = JAIL_FILE_STAT, .path = P("l")}, -1,
                           &id, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_FILE);
    CHECK_STR(event.file->bytes, "d/b");
    check_content(jail, "/workspace/l", "hello! more");
    CHECK_CSTR(place_shell(jail, "stat -c %a d/b; ls -R d", NULL), "700\nd:\nb\ne\n\nd/e:\n");

    CHECK_ERR(
        ask(jail, (struct jail_file){.verb = JAIL_FILE_DELETE, .path = P("d")}, &answer, &err),
        ERR_CONFLICT);
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_DELETE, .path = P("d"), .recursive = true},
                 &answer, &err));
    CHECK_INT(answer.count, 3);
    CHECK_ERR(jail_file_stat(jail, P("l"), true, &stat, &err), ERR_NOT_FOUND);
    CHECK_OK(jail_file_stat(jail, P("l"), false, &stat, &err));
    CHECK_INT(stat.type, FILES_SYMLINK);
}

/* What a caller would ask next comes with the answer. */
TEST(answers_say_how_things_stand)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    struct jail_file_answer a;
    struct files_stat stat;
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_WRITE, .path = P("a"), .bytes = STR("12345")},
                 &a, &err));
    CHECK_INT(a.stat.size, 5);
    CHECK_OK(jail_file_read(jail, P("a"), NULL, &bytes, &content, &err));
    CHECK_INT(content.stat.mtime_ns, a.stat.mtime_ns);
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_APPEND, .path = P("a"), .bytes = STR("6")},
                 &a, &err));
    CHECK_INT(a.stat.size, 6);
    CHECK_OK(ask(jail, (struct jail_file){.verb = JAIL_FILE_CHMOD, .path = P("a"), .mode = 0640},
                 &a, &err));
    CHECK_INT(a.stat.mode, 0640);
    CHECK_OK(ask(jail, (struct jail_file){.verb = JAIL_FILE_RENAME, .path = P("a"), .to = P("b")},
                 &a, &err));
    CHECK_INT(a.stat.size, 6);
    CHECK_OK(ask(jail, (struct jail_file){.verb = JAIL_FILE_MKDIR, .path = P("d")}, &a, &err));
    CHECK_INT(a.stat.type, FILES_DIRECTORY);
    CHECK_OK(ask(jail,
                 (struct jail_file){.verb = JAIL_FILE_SYMLINK, .path = P("l"), .to = STR("b")}, &a,
                 &err));
    CHECK_INT(a.stat.type, FILES_SYMLINK);
    CHECK_OK(ask(jail,
                 (struct jail_file){
                     .verb = JAIL_FILE_EDIT, .path = P("b"), .bytes = STR("345"), .with = STR("x")},
                 &a, &err));
    CHECK_INT(a.stat.size, 4);
    uint32_t id;
    struct jail_event event;
    struct jail_file look = {.verb = JAIL_FILE_STAT, .path = P("l")};
    CHECK_OK(jail_ask_file(jail, &look, -1, &id, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_FILE);
    CHECK_STR(event.file->bytes, "b");
    CHECK_OK(jail_file_stat(jail, P("l"), true, &stat, &err));
    CHECK_INT(stat.size, 4);
}

TEST(a_write_can_be_tied_to_what_was_read)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct files_stat first, second;
    bool created;
    struct files_write_options options = {.no_sync = true, .if_same = &first};
    put(jail, "/workspace/a", STR("one"));
    CHECK_OK(jail_file_stat(jail, P("a"), true, &first, &err));
    CHECK_OK(jail_file_write(jail, P("a"), STR("second"), &options, &created, &err));
    CHECK_ERR(jail_file_write(jail, P("a"), STR("three"), &options, &created, &err), ERR_NO_MATCH);
    CHECK_ERR(jail_file_write(jail, P("b"), STR("three"), &options, &created, &err), ERR_NO_MATCH);
    check_content(jail, "/workspace/a", "second");
    /* An upload that was overtaken. */
    CHECK_OK(jail_file_stat(jail, P("a"), true, &second, &err));
    struct jail_file upload = {.verb = JAIL_FILE_WRITE_FROM,
                               .path = P("a"),
                               .if_same = true,
                               .same_size = second.size,
                               .same_mtime_ns = second.mtime_ns};
    struct jail_event event;
    uint32_t id;
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    CHECK_OK(jail_ask_file(jail, &upload, fds[0], &id, &err));
    CHECK_INT(close(fds[0]), 0);
    CHECK_INT(write(fds[1], "late", 4), 4);
    for (int left = 1; left > 0;) { /* until the upload has read it */
        CHECK_INT(ioctl(fds[1], FIONREAD, &left), 0);
        (void)usleep(1000);
    }
    (void)place_shell(jail, "echo meanwhile > a", NULL);
    CHECK_INT(close(fds[1]), 0);
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_FAILED);
    CHECK_INT(event.err.code, ERR_NO_MATCH);
    check_content(jail, "/workspace/a", "meanwhile\n");
    CHECK_CSTR(place_shell(jail, "ls -A", NULL), "a\n");
}

TEST(errors_come_up_whole)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    bool created;
    CHECK_ERR(jail_file_read(jail, P("none"), NULL, &bytes, &content, &err), ERR_NOT_FOUND);
    CHECK_INT(err.sys, ENOENT);
    CHECK_ERR(jail_file_read(jail, STR("/workspace"), NULL, &bytes, &content, &err),
              ERR_NOT_A_FILE);
    CHECK_ERR(jail_file_write(jail, STR("/usr/x"), STR("x"), NULL, &created, &err), ERR_READ_ONLY);
    CHECK_ERR(jail_file_read(jail, STR("relative"), NULL, &bytes, &content, &err), ERR_INVALID);
    CHECK_MSG("not absolute");
    static char big[JAIL_FILE_BYTES_MAX + 1];
    CHECK_ERR(jail_file_write(jail, P("x"), str_n(big, sizeof big), NULL, &created, &err),
              ERR_TOO_LARGE);
    CHECK_MSG("descriptor");
    /* A message is words, whatever the name holds. */
    CHECK_ERR(jail_file_read(jail, P("a\n\033[31m\xff"), NULL, &bytes, &content, &err),
              ERR_NOT_FOUND);
    CHECK(strchr(err.msg, '\n') == NULL && strchr(err.msg, '\033') == NULL);
}

TEST(reading_has_ranges)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    CHECK_INT(place_shell(jail, "seq 100000 > n; printf 'a\\0b' > z", NULL)[0], 0);
    CHECK_OK(jail_file_read(jail, P("n"), NULL, &bytes, &content, &err));
    CHECK_INT(bytes.len, JAIL_FILE_BYTES_MAX);
    CHECK(content.truncated && !content.is_binary);
    CHECK_INT(content.size, 588895);
    buf_clear(&bytes);
    struct files_range range = {.offset = 588888, .limit = 100};
    CHECK_OK(jail_file_read(jail, P("n"), &range, &bytes, &content, &err));
    CHECK_CSTR(buf_cstr(&bytes), "100000\n");
    CHECK(!content.truncated);
    buf_clear(&bytes);
    CHECK_OK(jail_file_read(jail, P("z"), NULL, &bytes, &content, &err));
    CHECK_INT(bytes.len, 3);
    CHECK(content.is_binary);
}

TEST(lists_come_in_parts_and_pages)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_ARENA struct arena arena = {0};
    struct files_list list;
    (void)place_shell(jail,
                      "mkdir d && cd d && seq -f 'a-rather-long-name-so-that-parts-fill-up-%05g' "
                      "3000 | xargs touch",
                      NULL);
    CHECK_OK(jail_file_list(jail, P("d"), NULL, &arena, &list, &err));
    CHECK_INT(list.count, 3000);
    CHECK(!list.truncated);
    CHECK_STR(list.entries[2999].path, "a-rather-long-name-so-that-parts-fill-up-03000");
    struct files_list_options page = {.limit = 1000, .recursive = true};
    size_t total = 0;
    do {
        CHECK_OK(jail_file_list(jail, STR("/workspace"), &page, &arena, &list, &err));
        total += list.count;
        page.after = list.entries[list.count - 1].path;
    } while (list.truncated);
    CHECK_INT(total, 3001);
    CHECK_ERR(jail_file_list(jail, P("none"), NULL, &arena, &list, &err), ERR_NOT_FOUND);
}

TEST(searching_and_editing)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_ARENA struct arena arena = {0};
    struct files_glob glob;
    struct files_grep grep;
    struct jail_file_answer answer;
    put(jail, "/workspace/src/a.c", STR("int a;\nint b;\n"));
    put(jail, "/workspace/src/deep/b.c", STR("int c;\n"));
    put(jail, "/workspace/src/deep/c.h", STR("int d;\n"));
    put(jail, "/workspace/src/sch\xc3\xb6n.txt", STR("sch\xc3\xb6n\n"));
    CHECK_OK(jail_file_glob(jail, STR("/workspace"), STR("**/*.c"), NULL, &arena, &glob, &err));
    CHECK_INT(glob.count, 2);
    CHECK_STR(glob.paths[0], "src/a.c");
    CHECK_STR(glob.paths[1], "src/deep/b.c");
    CHECK_OK(
        jail_file_grep(jail, STR("/workspace"), STR("^int [b-d];"), NULL, &arena, &grep, &err));
    CHECK_INT(grep.count, 3);
    CHECK_STR(grep.matches[0].path, "src/a.c");
    CHECK_INT(grep.matches[0].line, 2);
    CHECK_STR(grep.matches[0].text, "int b;");
    CHECK_INT(grep.matches[0].column, 1);
    struct files_grep_options around = {.context = 1, .limit = 1, .glob = STR("a.c")};
    CHECK_OK(jail_file_grep(jail, STR("/workspace"), STR("b;"), &around, &arena, &grep, &err));
    CHECK_INT(grep.count, 2);
    CHECK(grep.matches[0].is_context && !grep.matches[1].is_context);
    CHECK_STR(grep.matches[0].text, "int a;");
    CHECK_INT(grep.matches[1].column, 5);
    CHECK_OK(
        jail_file_grep(jail, STR("/workspace"), STR("^int [b-d];"), NULL, &arena, &grep, &err));
    CHECK_INT(grep.files, 4);
    CHECK_OK(jail_file_grep(jail, P("src/a.c"), STR("a"), NULL, &arena, &grep, &err));
    CHECK_INT(grep.count, 1);
    CHECK_OK(jail_file_grep(jail, STR("/workspace"), STR("SCH\xc3\x96N"),
                            &(struct files_grep_options){.ignore_case = true}, &arena, &grep,
                            &err));
    CHECK_INT(grep.count, 1);
    CHECK_ERR(jail_file_grep(jail, STR("/workspace"), STR("(a"), NULL, &arena, &grep, &err),
              ERR_INVALID_PATTERN);

    struct jail_file edit = {
        .verb = JAIL_FILE_EDIT, .path = P("src/a.c"), .bytes = STR("int"), .with = STR("long")};
    CHECK_ERR(jail_file(jail, &edit, -1, &answer, &err), ERR_AMBIGUOUS_MATCH);
    edit.all = true;
    CHECK_OK(jail_file(jail, &edit, -1, &answer, &err));
    CHECK_INT(answer.count, 2);
    CHECK_ERR(jail_file(jail, &edit, -1, &answer, &err), ERR_NO_MATCH);
    check_content(jail, "/workspace/src/a.c", "long a;\nlong b;\n");
}

static int memory_file(void)
{
    int fd = memfd_create("data", MFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST(large_files_go_through_descriptors)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int data = memory_file();
    struct jail_file_answer answer;
    enum { SIZE = 5000000 };
    CHECK_INT(ftruncate(data, SIZE), 0);
    CHECK_INT(pwrite(data, "end", 3, SIZE - 3), 3);
    struct jail_file write = {.verb = JAIL_FILE_WRITE_FROM,
                              .path = P("new/big"),
                              .parents = true,
                              .is_expected = true,
                              .expected = SIZE + 1};
    CHECK_ERR(jail_file(jail, &write, data, &answer, &err), ERR_INVALID);
    CHECK_MSG("less data than");
    CHECK_CSTR(place_shell(jail, "ls -A new", NULL), "");
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    write.expected = SIZE;
    CHECK_OK(jail_file(jail, &write, data, &answer, &err));
    CHECK(answer.created);
    CHECK_INT(answer.moved, SIZE);
    CHECK_CSTR(place_shell(jail, "wc -c <new/big; tail -c3 new/big; ls -A new", NULL),
               "5000000\nendbig\n");

    AUTO_CLOSE int back = memory_file();
    struct jail_file read = {.verb = JAIL_FILE_READ_TO, .path = P("new/big"), .offset = 1000};
    CHECK_OK(jail_file(jail, &read, back, &answer, &err));
    CHECK_INT(answer.moved, SIZE - 1000);
    CHECK_INT(lseek(back, 0, SEEK_END), SIZE - 1000);
    CHECK(!answer.truncated);
    read.limit = 10;
    CHECK_OK(jail_file(jail, &read, back, &answer, &err));
    CHECK(answer.truncated);
    read.path = STR("/workspace");
    CHECK_ERR(jail_file(jail, &read, back, &answer, &err), ERR_NOT_A_FILE);
    write.is_expected = false;
    write.limit = 1000;
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    CHECK_ERR(jail_file(jail, &write, data, &answer, &err), ERR_TOO_LARGE);
    CHECK_ERR(jail_file(jail, &read, -1, &answer, &err), ERR_INVALID);
}

TEST(trees_travel_as_archives)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int data = memory_file();
    struct jail_file_answer answer;
    (void)place_shell(jail,
                      "mkdir -p t/d && echo x > t/d/f && ln -s d/f t/l && echo y > \"t/$(printf "
                      "'sch\\303\\266n \\377')\" && chmod 755 t/d/f",
                      NULL);
    struct jail_file out = {.verb = JAIL_FILE_TAR_OUT, .path = P("t"), .gzip = true};
    CHECK_OK(jail_file(jail, &out, data, &answer, &err));
    CHECK(answer.count >= 4);
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    struct jail_file in = {.verb = JAIL_FILE_TAR_IN, .path = P("u")};
    CHECK_OK(jail_file(jail, &in, data, &answer, &err));
    CHECK_CSTR(place_shell(jail,
                           "diff -r t u && readlink u/l && stat -c %a u/d/f && ls -A /workspace",
                           NULL),
               "d/f\n755\nt\nu\n");
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    CHECK_ERR(jail_file(jail, &in, data, &answer, &err), ERR_CONFLICT);
    AUTO_CLOSE int junk = memory_file();
    CHECK_INT(write(junk, "no archive", 10), 10);
    CHECK_INT(lseek(junk, 0, SEEK_SET), 0);
    in.path = P("v");
    CHECK_ERR(jail_file(jail, &in, junk, &answer, &err), ERR_INVALID);
    CHECK_CSTR(place_shell(jail, "ls -A", NULL), "t\nu\n");
}

/* Takes events of a watch until one of this kind and name comes. */
static void await_news(struct jail *jail, uint32_t id, enum files_event_type type, const char *name)
{
    for (;;) {
        struct jail_event event;
        struct files_event news;
        place_next(jail, &event);
        CHECK_INT(event.id, id);
        CHECK_INT(event.type, JAIL_EVENT_PART);
        while (jail_part_event(&event.part, &news))
            if (news.type == type && str_eq(news.path, str_of(name)))
                return;
    }
}

TEST(a_watch_tells_what_happens_until_it_is_cancelled)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_file watch = {
        .verb = JAIL_FILE_WATCH, .path = STR("/workspace"), .recursive = true};
    struct jail_event event;
    uint32_t id;
    CHECK_OK(jail_ask_file(jail, &watch, -1, &id, &err));
    place_next(jail, &event);
    CHECK_INT(event.type, JAIL_EVENT_PART); /* it watches now */
    CHECK_INT(event.part.len, 0);
    (void)place_shell(jail, "mkdir d", NULL);
    await_news(jail, id, FILES_EVENT_CREATE, "d");
    /* Told of, so watched: what came and went in it before that, nobody can know. */
    (void)place_shell(jail, "echo x > d/f; mv d/f d/g; rm d/g", NULL);
    await_news(jail, id, FILES_EVENT_REMOVE, "d/g");
    CHECK_OK(jail_cancel(jail, id, &err));
    do {
        place_next(jail, &event);
    } while (event.type == JAIL_EVENT_PART);
    CHECK_INT(event.type, JAIL_EVENT_FAILED);
    CHECK_INT(event.err.code, ERR_CANCELED);
    CHECK_ERR(jail_cancel(jail, id, &err), ERR_NOT_FOUND);

    watch.path = P("d");
    CHECK_OK(jail_ask_file(jail, &watch, -1, &id, &err));
    place_next(jail, &event);
    (void)place_shell(jail, "rmdir /workspace/d", NULL);
    do {
        place_next(jail, &event);
    } while (event.type == JAIL_EVENT_PART);
    CHECK_INT(event.type, JAIL_EVENT_FILE);
}

/* A reader that never comes, a writer that never comes, a hundred of them: nobody else waits. */
TEST(what_is_stuck_holds_up_nobody)
{
    enum { COUNT = 50 };
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_event event;
    uint32_t ids[COUNT * 2];
    int out[2], in[2];
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    CHECK_INT(pipe2(in, O_CLOEXEC), 0);
    (void)place_shell(jail, "head -c 1000000 /dev/zero > big", NULL);
    struct jail_file read = {.verb = JAIL_FILE_READ_TO, .path = P("big")};
    struct jail_file write = {.verb = JAIL_FILE_WRITE_FROM, .path = P("never")};
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(jail_ask_file(jail, &read, out[1], &ids[i], &err));
        CHECK_OK(jail_ask_file(jail, &write, in[0], &ids[COUNT + i], &err));
    }
    put(jail, "/workspace/small", STR("still here"));
    check_content(jail, "/workspace/small", "still here");
    CHECK_CSTR(place_shell(jail, "echo and here", NULL), "and here\n");
    for (int i = 0; i < COUNT * 2; i++)
        CHECK_OK(jail_cancel(jail, ids[i], &err));
    for (int i = 0; i < COUNT * 2; i++) {
        place_next(jail, &event);
        CHECK_INT(event.type, JAIL_EVENT_FAILED);
        CHECK_INT(event.err.code, ERR_CANCELED);
    }
    CHECK_INT(close(out[0]) + close(out[1]) + close(in[0]) + close(in[1]), 0);
    /* Half an upload leaves nothing behind. */
    CHECK_CSTR(place_shell(jail, "sleep 0.2; ls -A", NULL), "big\nsmall\n");
}

/* A tenant can stop the processes of an operation, they have its uid; cancelling ends them. */
TEST(an_operation_that_is_stopped_can_be_cancelled)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_file watch = {.verb = JAIL_FILE_WATCH, .path = STR("/workspace")};
    struct jail_event event;
    uint32_t id;
    CHECK_OK(jail_ask_file(jail, &watch, -1, &id, &err));
    place_next(jail, &event);
    /* Init may have a second thread, so the operation is known by coming right before the shell. */
    (void)place_shell(jail, "p=$(($$ - 1)); echo $p >/tmp/p; kill -STOP $p", NULL);
    CHECK_OK(jail_cancel(jail, id, &err));
    place_next(jail, &event);
    CHECK_INT(event.err.code, ERR_CANCELED);
    CHECK_CSTR(place_shell(jail,
                           "p=$(cat /tmp/p) i=0; while kill -0 $p 2>/dev/null && [ $i -lt 500 ]; "
                           "do sleep 0.01; i=$((i+1)); done; kill -0 $p 2>/dev/null || echo gone",
                           NULL),
               "gone\n");
}

TEST(an_operation_that_is_killed_says_so)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_file watch = {.verb = JAIL_FILE_WATCH, .path = STR("/workspace")};
    struct jail_event event;
    uint32_t id;
    CHECK_OK(jail_ask_file(jail, &watch, -1, &id, &err));
    place_next(jail, &event);
    (void)place_shell(jail, "kill -9 -1", NULL);
    place_next(jail, &event);
    CHECK_INT(event.id, id);
    CHECK_INT(event.type, JAIL_EVENT_FAILED);
    CHECK_INT(event.err.code, ERR_LIMIT);
    put(jail, "/workspace/a", STR("alive"));
    check_content(jail, "/workspace/a", "alive");
}

/* What serves an operation has the tenant's uid; it is not the tenant's to look into or to stop
 * short of killing it. */
TEST(processes_of_an_operation_cannot_be_looked_into)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    struct jail_file watch = {.verb = JAIL_FILE_WATCH, .path = STR("/workspace")};
    struct jail_file tar = {.verb = JAIL_FILE_TAR_IN, .path = P("x")};
    struct jail_event event;
    uint32_t id, tar_id;
    int pipe_fds[2];
    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = pipe_fds[0];
    AUTO_CLOSE UNUSED int writer = pipe_fds[1];
    CHECK_OK(jail_ask_file(jail, &watch, -1, &id, &err));
    place_next(jail, &event);
    CHECK_OK(jail_ask_file(jail, &tar, reader, &tar_id, &err)); /* the helper waits for its data */
    /* Two processes of an operation, one of the tenant's own as control: by number, since names
     * are hidden. kill -0 finds them all. */
    const char *text = place_shell(
        jail,
        "sleep 100 & own=$!; sleep 0.3; there=0; open=0; "
        "for p in $(seq 2 $own); do kill -0 $p 2>/dev/null && there=$((there+1)); "
        "for f in mem maps environ exe fd root cwd; do "
        "if [ $p != $$ ] && [ $p != $own ] && { ls /proc/$p/$f/ || cat /proc/$p/$f; } "
        ">/dev/null 2>&1; then open=$((open+1)); fi; done; done; "
        "cat /proc/$own/maps >/dev/null && echo control; echo $((there >= 4)) $open; kill $own",
        NULL);
    CHECK_CSTR(text, "control\n1 0\n");
    CHECK_OK(jail_cancel(jail, id, &err));
    CHECK_OK(jail_cancel(jail, tar_id, &err));
}

/* All processes are taken: the small verbs need none. */
TEST(small_verbs_need_no_process)
{
    struct err err = {0};
    if (warden_host(place_warden())->no_pids[0] != '\0')
        SKIP(warden_host(place_warden())->no_pids);
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){.limits.pids = 8});
    AUTO_ARENA struct arena arena = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct files_list list;
    uint32_t id;
    const char *argv[] = {"sleep", "1000", NULL};
    while (jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                      NULL, &err) == 0)
        ;
    CHECK_INT(err.code, ERR_LIMIT);
    put(jail, "/workspace/a", STR("fine"));
    check_content(jail, "/workspace/a", "fine");
    CHECK_OK(jail_file_list(jail, STR("/workspace"), NULL, &arena, &list, &err));
    struct files_list_options all = {.recursive = true};
    CHECK_ERR(jail_file_list(jail, STR("/workspace"), &all, &arena, &list, &err), ERR_LIMIT);
    CHECK_MSG("leaves no process");
}

TEST(servers_inside_can_be_reached)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    static const char server[] =
        "import socket,sys\n"
        "s = socket.socket(socket.AF_INET6 if len(sys.argv) > 1 else socket.AF_INET)\n"
        "s.bind(('::1' if len(sys.argv) > 1 else '127.0.0.1', 0)); s.listen(5)\n"
        "print(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept(); c.sendall(c.recv(100).upper()); c.close()\n";
    CHECK_ERR(jail_connect(jail, 1, &err), ERR_NO_LISTENER);
    CHECK_MSG("nothing listens on port 1");
    CHECK_ERR(jail_connect(jail, 0, &err), ERR_INVALID);
    for (int six = 0; six < 2; six++) {
        const char *argv[] = {"python3", "-c", server, six ? "6" : NULL, NULL};
        int out[2];
        uint32_t id;
        char text[100] = {0};
        struct jail_exit exit;
        CHECK_INT(pipe2(out, O_CLOEXEC), 0);
        AUTO_CLOSE int reader = out[0];
        CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, out[1], null},
                            &id, NULL, &err));
        CHECK_INT(close(out[1]), 0);
        if (read(reader, text, sizeof text - 1) <= 0) {
            CHECK_OK(jail_wait(jail, 60000, &exit, &err));
            SKIP("no python3 or no such loopback inside");
        }
        AUTO_CLOSE int fd = jail_connect(jail, (uint16_t)strtol(text, NULL, 10), &err);
        CHECK(fd >= 0);
        CHECK_INT(write(fd, "hello", 5), 5);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        CHECK_INT(poll(&wait, 1, 60000), 1);
        CHECK_INT(read(fd, text, sizeof text), 5);
        CHECK(memcmp(text, "HELLO", 5) == 0);
        CHECK_OK(jail_wait(jail, 60000, &exit, &err));
    }
}

TEST(init_stays_small)
{
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    static char big[JAIL_FILE_BYTES_MAX];
    char path[64], line[256];
    int pid = -1;
    long kib = -1;
    put(jail, "/workspace/big", str_n(big, sizeof big));
    for (int i = 0; i < 50; i++)
        check_content(jail, "/workspace/big", "");
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", jail_pidfd(jail));
    FILE *info = fopen(path, "re");
    while (fgets(line, sizeof line, info) != NULL)
        (void)!sscanf(line, "Pid: %d", &pid);
    CHECK_INT(fclose(info), 0);
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    if (status == NULL)
        SKIP("cannot look at init from here");
    while (fgets(line, sizeof line, status) != NULL)
        (void)!sscanf(line, "VmRSS: %ld", &kib);
    CHECK_INT(fclose(status), 0);
    CHECK(kib > 0 && kib < 1024);
}
