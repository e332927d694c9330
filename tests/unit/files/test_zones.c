/* Zones: paths by their words, verbs, and questions from a pipe. */

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "files/zones/zones.h"
#include "tree.h"

TEST(a_path_is_judged_by_its_words)
{
    static const struct {
        const char *path;
        enum err_code code;
        enum zone zone;
        const char *below;
    } cases[] = {
        {"/workspace", ERR_NONE, ZONE_WORKSPACE, "."},
        {"/workspace/", ERR_NONE, ZONE_WORKSPACE, "."},
        {"//cache//a///b/", ERR_NONE, ZONE_CACHE, "a/b"},
        {"/./workspace/./a/./b", ERR_NONE, ZONE_WORKSPACE, "a/b"},
        {"/workspace/a/../b", ERR_NONE, ZONE_WORKSPACE, "b"},
        {"/workspace/a/b/../..", ERR_NONE, ZONE_WORKSPACE, "."},
        {"/workspace/ab/../../..", ERR_PATH_ESCAPES, 0, NULL},
        {"/workspace/..", ERR_PATH_ESCAPES, 0, NULL},
        {"/workspace/../workspace", ERR_PATH_ESCAPES, 0, NULL},
        {"/..", ERR_PATH_ESCAPES, 0, NULL},
        {"/workspace/...", ERR_NONE, ZONE_WORKSPACE, "..."},
        {"/etc/passwd", ERR_ZONE_NOT_CONFIGURED, 0, NULL},
        {"/workspaces", ERR_ZONE_NOT_CONFIGURED, 0, NULL},
        {"/", ERR_INVALID, 0, NULL},
        {"///", ERR_INVALID, 0, NULL},
        {"", ERR_INVALID, 0, NULL},
        {"workspace/a", ERR_INVALID, 0, NULL},
        {"./workspace", ERR_INVALID, 0, NULL},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        struct zone_path path;
        int result = zone_path_parse(str_of(cases[i].path), &path, &err);
        CHECK_INT(err.code, cases[i].code);
        CHECK_INT(result, cases[i].code == ERR_NONE ? 0 : -1);
        if (result == 0) {
            CHECK_INT(path.zone, cases[i].zone);
            CHECK_CSTR(path.below, cases[i].below);
        }
    }
    struct err err = {0};
    struct zone_path path;
    char name[5000];
    memset(name, 'x', sizeof name);
    memcpy(name, "/cache/", 7);
    CHECK_ERR(zone_path_parse(STR("/cache/a\0b"), &path, &err), ERR_INVALID);
    CHECK_ERR(zone_path_parse(str_n(name, 7 + 256), &path, &err), ERR_INVALID);
    CHECK_OK(zone_path_parse(str_n(name, 7 + 255), &path, &err));
    CHECK_ERR(zone_path_parse(str_n(name, sizeof name), &path, &err), ERR_INVALID);
}

TEST(a_zone_without_a_directory_is_not_configured)
{
    struct err err = {0};
    AUTO_ZONES struct zones *zones = NULL;
    AUTO_BUF struct buf out = {0};
    const char *dir = test_tmpdir();
    test_write(dir, "f", "hi");
    struct zones_options options = {.roots = {dir}};
    CHECK_OK(zones_open(&options, &zones, &err));
    CHECK_OK(zones_read(zones, STR("/workspace/f"), &out, &err));
    CHECK_STR(buf_str(&out), "hi");
    CHECK_ERR(zones_read(zones, STR("/cache/f"), &out, &err), ERR_ZONE_NOT_CONFIGURED);
    struct zones_options wrong = {.roots = {"/no/such/directory"}};
    AUTO_ZONES struct zones *none = NULL;
    CHECK_ERR(zones_open(&wrong, &none, &err), ERR_NOT_FOUND);
}

/* What the worker answers, and how it ends. */
static int serve(struct zones *zones, struct str questions, struct buf *out, struct err *err)
{
    int in[2], answers[2];
    assert_return_code(pipe(in), 0);
    assert_return_code(pipe(answers), 0);
    CHECK_INT(fd_write_all(in[1], questions, err), 0);
    fd_close(&in[1]);
    int result = zones_serve(zones, in[0], answers[1], err);
    fd_close(&in[0]);
    fd_close(&answers[1]);
    struct err ignored = {0};
    CHECK_INT(buf_read_all(out, answers[0], &ignored), 0);
    fd_close(&answers[0]);
    return result;
}

TEST(questions_are_answered_in_their_order)
{
    struct err err = {0};
    AUTO_ZONES struct zones *zones = NULL;
    AUTO_BUF struct buf out = {0};
    struct zones_options options = {.roots = {test_tmpdir()}};
    CHECK_OK(zones_open(&options, &zones, &err));
    CHECK_OK(serve(zones,
                   STR("write 12 3\n/workspace/aa\nbread 12 0\n/workspace/aexists 12 0\n"
                       "/workspace/bdelete 12 0\n/workspace/aread 12 0\n/workspace/a"),
                   &out, &err));
    CHECK(str_starts(buf_str(&out), STR("ok 1\n1ok 3\na\nbok 1\n0ok 0\nerror not_found ")));
}

TEST(what_is_no_question_ends_the_worker)
{
    static const char *const wrong[] = {
        "fly 1 0\n/",      "read\n",       "read 1\n",        "read 1 0 0\n/",
        "read -1 0\n",     "read 1x 0\n/", "read 99999 0\n",  "read 1 99999999999\n",
        "read 10 0\n/wor", "read 10",      "read  10 0\n/wo",
    };
    for (size_t i = 0; i < countof(wrong); i++) {
        struct err err = {0};
        AUTO_ZONES struct zones *zones = NULL;
        AUTO_BUF struct buf out = {0};
        struct zones_options options = {.roots = {test_tmpdir()}};
        CHECK_OK(zones_open(&options, &zones, &err));
        CHECK_ERR(serve(zones, str_of(wrong[i]), &out, &err), ERR_INVALID);
        CHECK_INT(out.len, 0);
    }
}

#if !defined(__SANITIZE_ADDRESS__) /* gcc's word; clang's has no such tests */
/* Behind the lock nothing but the zone can be opened, and nothing can be run. */
TEST(the_lock_holds)
{
    struct err err = {0};
    AUTO_ZONES struct zones *zones = NULL;
    struct zones_options options = {.roots = {test_tmpdir()}};
    CHECK_OK(zones_open(&options, &zones, &err));
    pid_t child = fork();
    if (child == 0) {
        AUTO_BUF struct buf out = {0};
        bool created = false;
        if (zones_lock(zones, &err) < 0)
            _exit(2);
        if (zones_write(zones, STR("/workspace/d/f"), STR("x"), &created, &err) < 0 || !created)
            _exit(3);
        if (zones_read(zones, STR("/workspace/d/f"), &out, &err) < 0)
            _exit(4);
        if (zones_delete(zones, STR("/workspace/d"), true, &err) < 0)
            _exit(5);
        if (fork() >= 0 || socket(AF_INET, SOCK_STREAM, 0) >= 0)
            _exit(6);
        _exit(execl("/bin/true", "true", NULL) == 0 ? 7 : 0);
    }
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : 99, 0);
}
#endif
