#include "files/watch.h"

#include "tree.h"

enum { PATIENCE_MS = 120000 };

/* Reads news until this one comes; false when none comes. */
static bool expect(struct files_watch *watch, enum files_event_type type, const char *path)
{
    struct err err = {0};
    struct files_event event = {0};
    for (;;) {
        int got = files_watch_next(watch, PATIENCE_MS, &event, &err);
        CHECK_OK(got);
        if (got == 0)
            return false;
        if (event.type == type && str_eq(event.path, str_of(path)))
            return true;
    }
}

TEST(watch_tells_what_happens)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    struct err err = {0};
    struct files_event event;
    struct files_delete_result deleted;
    uint64_t n;
    tree_put(&tree, "d/e/f", "x");
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &watch, &err));
    CHECK_INT(files_watch_next(watch, 0, &event, &err), 0);
    CHECK_OK(files_append(tree.files, STR("d/e/f"), STR("y"), &n, &err));
    CHECK(expect(watch, FILES_EVENT_WRITE, "d/e/f"));
    CHECK_OK(files_chmod(tree.files, STR("d/e/f"), 0600, &err));
    CHECK(expect(watch, FILES_EVENT_CHMOD, "d/e/f"));
    CHECK_OK(files_rename(tree.files, STR("d/e/f"), STR("g"), false, &err));
    CHECK(expect(watch, FILES_EVENT_RENAME_FROM, "d/e/f"));
    CHECK(expect(watch, FILES_EVENT_RENAME_TO, "g"));
    CHECK_OK(files_delete(tree.files, STR("g"), false, &deleted, &err));
    CHECK(expect(watch, FILES_EVENT_REMOVE, "g"));
}

TEST(watch_tells_of_a_write_and_not_how_it_is_done)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    AUTO_BUF struct buf news = buf_with_limit(1 << 16);
    struct err err = {0};
    struct files_write_options only_new = {.must_be_new = true};
    bool created;
    CHECK_OK(files_mkdir(tree.files, STR("d"), 0755, false, &err));
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &watch, &err));
    CHECK_OK(files_write(tree.files, STR("d/f"), STR("x"), NULL, &created, &err));
    tree_hear(watch, &news);
    CHECK_CSTR(buf_cstr(&news), "create d/f\n");
    CHECK_OK(files_write(tree.files, STR("d/f"), STR("y"), NULL, &created, &err));
    tree_hear(watch, &news);
    CHECK_CSTR(buf_cstr(&news), "write d/f\n");
    /* One that comes to nothing is no news at all. */
    CHECK_ERR(files_write(tree.files, STR("d/f"), STR("z"), &only_new, &created, &err),
              ERR_CONFLICT);
    tree_hear(watch, &news);
    CHECK_CSTR(buf_cstr(&news), "");
    /* A tenant's own names that merely begin so are its own. */
    test_write(tree.dir, ".sandglass-notes", "x");
    CHECK(expect(watch, FILES_EVENT_CREATE, ".sandglass-notes"));
}

TEST(watch_tells_what_comes_from_elsewhere_as_created)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL, *all = NULL;
    AUTO_BUF struct buf news = buf_with_limit(1 << 16);
    struct err err = {0};
    char from[400], to[400];
    CHECK_OK(files_mkdir(tree.files, STR("d"), 0755, false, &err));
    test_write(tree.outer, "guest", "x");
    tree_put(&tree, "d/f", "x");
    CHECK_OK(files_watch_new(tree.files, STR("."), false, &watch, &err));
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &all, &err));
    (void)snprintf(from, sizeof from, "%s/guest", tree.outer);
    (void)snprintf(to, sizeof to, "%s/guest", tree.dir);
    CHECK_INT(rename(from, to), 0);
    CHECK_OK(files_rename(tree.files, STR("d/f"), STR("f"), false, &err));
    tree_hear(watch, &news); /* d is not watched */
    CHECK_CSTR(buf_cstr(&news), "create guest\ncreate f\n");
    tree_hear(all, &news);
    CHECK_CSTR(buf_cstr(&news), "create guest\nfrom d/f\nto f\n");
}

TEST(watch_follows_new_and_moved_directories)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    struct err err = {0};
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &watch, &err));
    CHECK_OK(files_mkdir(tree.files, STR("a/b/c"), 0755, true, &err));
    tree_put(&tree, "a/b/c/f", "x");
    CHECK(expect(watch, FILES_EVENT_CREATE, "a/b/c"));
    tree_put(&tree, "a/b/c/g", "x");
    CHECK(expect(watch, FILES_EVENT_CREATE, "a/b/c/g"));
    CHECK_OK(files_rename(tree.files, STR("a/b"), STR("z"), false, &err));
    CHECK(expect(watch, FILES_EVENT_RENAME_TO, "z"));
    CHECK(expect(watch, FILES_EVENT_CREATE, "z/c/g"));
    test_write(tree.dir, "z/c/h", "x");
    CHECK(expect(watch, FILES_EVENT_CREATE, "z/c/h"));
}

TEST(watch_stays_inside_and_ends_with_its_directory)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    struct err err = {0};
    struct files_delete_result deleted;
    tree_put(&tree, "f", "x");
    test_symlink(tree.dir, "..", "up");
    CHECK_ERR(files_watch_new(tree.files, STR("up"), true, &watch, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(files_watch_new(tree.files, STR("f"), true, &watch, &err), ERR_NOT_A_DIRECTORY);
    CHECK_OK(files_mkdir(tree.files, STR("d"), 0755, true, &err));
    int fds = test_open_fds();
    CHECK_OK(files_watch_new(tree.files, STR("d"), false, &watch, &err));
    CHECK_OK(files_delete(tree.files, STR("d"), true, &deleted, &err));
    CHECK(expect(watch, FILES_EVENT_GONE, ""));
    watch = files_watch_free(watch);
    CHECK_INT(test_open_fds(), fds);
}

TEST(watch_says_when_news_were_lost)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    struct err err = {0};
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &watch, &err));
    char path[400];
    (void)snprintf(path, sizeof path, "%s/d", tree.dir);
    /* A directory full of files that is moved in is reported file by file, up to the bound. */
    char outside[400];
    (void)snprintf(outside, sizeof outside, "%s/full", tree.outer);
    CHECK_INT(mkdir(outside, 0755), 0);
    for (int i = 0; i < FILES_WATCH_EVENTS_MAX + 10; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "full/%d", i);
        test_write(tree.outer, name, "");
    }
    CHECK_INT(rename(outside, path), 0);
    CHECK(expect(watch, FILES_EVENT_OVERFLOW, ""));
    test_write(tree.dir, "after", "");
    CHECK(expect(watch, FILES_EVENT_CREATE, "after"));
}
