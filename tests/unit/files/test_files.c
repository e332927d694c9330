/* Each verb's good and bad input. */

#include "tree.h"

TEST(read_gives_ranges_and_says_when_there_is_more)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    struct files_content content = {0};
    tree_put(&tree, "f", "0123456789");
    CHECK_OK(files_read(tree.files, STR("f"), NULL, &out, &content, &err));
    CHECK_STR(buf_str(&out), "0123456789");
    CHECK(content.size == 10 && !content.truncated && !content.is_binary);
    static const struct {
        struct files_range range;
        const char *expected;
        bool truncated;
    } cases[] = {
        {{0, 4}, "0123", true},  {{4, 4}, "4567", true},         {{6, 4}, "6789", false},
        {{6, 9}, "6789", false}, {{10, 4}, "", false},           {{99, 4}, "", false},
        {{9, 1}, "9", false},    {{0, 10}, "0123456789", false},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        buf_clear(&out);
        CHECK_OK(files_read(tree.files, STR("f"), &cases[i].range, &out, &content, &err));
        CHECK_STR(buf_str(&out), cases[i].expected);
        CHECK_INT(content.truncated, cases[i].truncated);
    }
    struct files_range wild = {UINT64_MAX, 1};
    CHECK_ERR(files_read(tree.files, STR("f"), &wild, &out, &content, &err), ERR_INVALID);
}

TEST(read_is_safe_for_binary_and_refuses_what_is_no_file)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    struct files_content content = {0};
    bool created;
    CHECK_OK(files_write(tree.files, STR("b"), STR("a\0b\xff"), NULL, &created, &err));
    CHECK_OK(files_read(tree.files, STR("b"), NULL, &out, &content, &err));
    CHECK(str_eq(buf_str(&out), STR("a\0b\xff")));
    CHECK(content.is_binary);
    CHECK_ERR(files_read(tree.files, STR("."), NULL, &out, &content, &err), ERR_NOT_A_FILE);
    CHECK_MSG("is a directory, not a regular file");
    CHECK_ERR(files_read(tree.files, STR("x"), NULL, &out, &content, &err), ERR_NOT_FOUND);
    CHECK_ERR(files_read(tree.files, STR("b/x"), NULL, &out, &content, &err), ERR_NOT_A_DIRECTORY);
    CHECK_INT(out.len, 4); /* a failed call does not change the buffer */
}

TEST(write_creates_replaces_and_keeps_the_mode)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    bool created = false;
    struct files_stat st;
    CHECK_OK(files_write(tree.files, STR("f"), STR("one"), NULL, &created, &err));
    CHECK(created);
    CHECK_OK(files_chmod(tree.files, STR("f"), 04711, &err));
    CHECK_OK(files_stat(tree.files, STR("f"), true, &st, &err));
    CHECK_INT(st.mode, 0711); /* the set-id bit was dropped */
    CHECK_OK(files_write(tree.files, STR("f"), STR("two"), NULL, &created, &err));
    CHECK(!created);
    CHECK_OK(files_stat(tree.files, STR("f"), true, &st, &err));
    CHECK_INT(st.mode, 0711);
    CHECK(st.type == FILES_REGULAR && st.size == 3 && st.mtime_ns > 0);
    tree_check(&tree, "f", "two");
    CHECK_INT(tree_count(&tree, "."), 1);
}

TEST(write_makes_parents_only_when_asked)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    bool created;
    struct files_write_options options = {.make_parents = true, .must_be_new = true};
    CHECK_ERR(files_write(tree.files, STR("a/b/f"), STR("x"), NULL, &created, &err), ERR_NOT_FOUND);
    CHECK_OK(files_write(tree.files, STR("a/b/f"), STR("x"), &options, &created, &err));
    tree_check(&tree, "a/b/f", "x");
    CHECK_ERR(files_write(tree.files, STR("a/b/f"), STR("y"), &options, &created, &err),
              ERR_CONFLICT);
    CHECK_ERR(files_write(tree.files, STR("a/b"), STR("y"), NULL, &created, &err), ERR_NOT_A_FILE);
    CHECK_ERR(files_write(tree.files, STR("a/b/f/g"), STR("y"), &options, &created, &err),
              ERR_NOT_A_DIRECTORY);
    CHECK_ERR(files_write(tree.files, STR("."), STR("y"), NULL, &created, &err), ERR_INVALID);
    CHECK_ERR(files_write(tree.files, STR("a/.."), STR("y"), NULL, &created, &err), ERR_INVALID);
    options = (struct files_write_options){.limit = 3};
    CHECK_ERR(files_write(tree.files, STR("g"), STR("four"), &options, &created, &err),
              ERR_TOO_LARGE);
    CHECK(!tree_has(&tree, "g"));
    CHECK_INT(tree_count(&tree, "."), 1);
}

TEST(write_can_be_tied_to_what_was_read)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_BUF struct buf bytes = {0};
    struct err err = {0};
    struct files_content content = {0};
    bool created;
    tree_put(&tree, "f", "one");
    CHECK_OK(files_read(tree.files, STR("f"), NULL, &bytes, &content, &err));
    struct files_write_options options = {.if_same = &content.stat};
    CHECK_ERR(files_write(tree.files, STR("g"), STR("x"), &options, &created, &err), ERR_NO_MATCH);
    CHECK_OK(files_write(tree.files, STR("f"), STR("two"), &options, &created, &err));
    content.stat.size = 4;
    CHECK_ERR(files_write(tree.files, STR("f"), STR("x"), &options, &created, &err), ERR_NO_MATCH);
    CHECK_MSG("a different file now");
}

TEST(append_makes_and_extends)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    uint64_t size = 0;
    CHECK_OK(files_append(tree.files, STR("log"), STR("one\n"), &size, &err));
    CHECK_OK(files_append(tree.files, STR("log"), STR("two\n"), &size, &err));
    CHECK_INT(size, 8);
    tree_check(&tree, "log", "one\ntwo\n");
    CHECK_ERR(files_append(tree.files, STR("."), STR("x"), &size, &err), ERR_NOT_A_FILE);
    CHECK_ERR(files_append(tree.files, STR("no/log"), STR("x"), &size, &err), ERR_NOT_FOUND);
}

TEST(append_takes_away_set_id_bits)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    uint64_t size = 0;
    struct files_stat st;
    tree_put(&tree, "f", "x");
    char path[320];
    (void)snprintf(path, sizeof path, "%s/f", tree.dir);
    CHECK_INT(chmod(path, 06755), 0);
    CHECK_OK(files_append(tree.files, STR("f"), STR("y"), &size, &err));
    CHECK_OK(files_stat(tree.files, STR("f"), true, &st, &err));
    CHECK_INT(st.mode, 0755);
}

TEST(mkdir_with_and_without_parents)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    CHECK_ERR(files_mkdir(tree.files, STR("a/b"), 0755, false, &err), ERR_NOT_FOUND);
    CHECK_OK(files_mkdir(tree.files, STR("a"), 0755, false, &err));
    CHECK_ERR(files_mkdir(tree.files, STR("a"), 0755, false, &err), ERR_CONFLICT);
    CHECK_OK(files_mkdir(tree.files, STR("a/b/./c//d/"), 0755, true, &err));
    CHECK_OK(files_mkdir(tree.files, STR("a/b/c/d"), 0755, true, &err));
    CHECK_OK(files_mkdir(tree.files, STR("a/b/../e"), 0755, true, &err));
    CHECK(tree_has(&tree, "a/b/c/d") && tree_has(&tree, "a/e"));
    tree_put(&tree, "f", "x");
    CHECK_ERR(files_mkdir(tree.files, STR("f/x"), 0755, true, &err), ERR_NOT_A_DIRECTORY);
    CHECK_ERR(files_mkdir(tree.files, STR("f"), 0755, true, &err), ERR_NOT_A_DIRECTORY);
    CHECK_ERR(files_mkdir(tree.files, STR("../x"), 0755, true, &err), ERR_PATH_ESCAPES);
}

TEST(rename_replaces_only_when_asked)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    tree_put(&tree, "a/f", "one");
    tree_put(&tree, "b/g", "two");
    CHECK_ERR(files_rename(tree.files, STR("a/f"), STR("b/g"), false, &err), ERR_CONFLICT);
    tree_check(&tree, "b/g", "two");
    CHECK_OK(files_rename(tree.files, STR("a/f"), STR("b/g"), true, &err));
    tree_check(&tree, "b/g", "one");
    CHECK_OK(files_rename(tree.files, STR("b"), STR("c"), false, &err));
    tree_check(&tree, "c/g", "one");
    CHECK_ERR(files_rename(tree.files, STR("c"), STR("c/d"), true, &err), ERR_INVALID);
    CHECK_ERR(files_rename(tree.files, STR("no"), STR("d"), true, &err), ERR_NOT_FOUND);
    CHECK_ERR(files_rename(tree.files, STR("c/g"), STR("../x"), true, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(files_rename(tree.files, STR("../HOSTFILE"), STR("x"), true, &err), ERR_PATH_ESCAPES);
}

TEST(links_are_made_and_read)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct str target = {0};
    bool exists = false;
    tree_put(&tree, "f", "x");
    CHECK_OK(files_symlink(tree.files, STR("l"), STR("f"), &err));
    CHECK_OK(files_readlink(tree.files, STR("l"), &arena, &target, &err));
    CHECK_STR(target, "f");
    CHECK_ERR(files_readlink(tree.files, STR("f"), &arena, &target, &err), ERR_INVALID);
    CHECK_ERR(files_symlink(tree.files, STR("l"), STR("g"), &err), ERR_CONFLICT);
    CHECK_ERR(files_symlink(tree.files, STR("m"), STR(""), &err), ERR_INVALID);
    CHECK_ERR(files_symlink(tree.files, STR("m"), STR("a\0b"), &err), ERR_INVALID);
    struct files_stat st;
    CHECK_OK(files_stat(tree.files, STR("l"), false, &st, &err));
    CHECK_INT(st.type, FILES_SYMLINK);
    CHECK_OK(files_stat(tree.files, STR("l"), true, &st, &err));
    CHECK_INT(st.type, FILES_REGULAR);
    CHECK_OK(files_symlink(tree.files, STR("dangling"), STR("none"), &err));
    CHECK_OK(files_exists(tree.files, STR("dangling"), &exists, &err));
    CHECK(!exists);
    CHECK_OK(files_exists(tree.files, STR("f/x"), &exists, &err));
    CHECK(!exists);
    CHECK_OK(files_exists(tree.files, STR("l"), &exists, &err));
    CHECK(exists);
    CHECK_ERR(files_exists(tree.files, STR("../HOSTFILE"), &exists, &err), ERR_PATH_ESCAPES);
}

TEST(edit_replaces_exactly_what_is_meant)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    uint64_t count = 0;
    tree_put(&tree, "f", "one two one");
    CHECK_ERR(files_edit(tree.files, STR("f"), STR("six"), STR("x"), false, &count, &err),
              ERR_NO_MATCH);
    CHECK_ERR(files_edit(tree.files, STR("f"), STR("one"), STR("x"), false, &count, &err),
              ERR_AMBIGUOUS_MATCH);
    CHECK_MSG("2 times");
    tree_check(&tree, "f", "one two one");
    CHECK_OK(files_edit(tree.files, STR("f"), STR("two"), STR("2"), false, &count, &err));
    CHECK_INT(count, 1);
    CHECK_OK(files_edit(tree.files, STR("f"), STR("one"), STR("one one"), true, &count, &err));
    CHECK_INT(count, 2);
    tree_check(&tree, "f", "one one 2 one one");
    CHECK_OK(files_edit(tree.files, STR("f"), STR("one "), STR(""), true, &count, &err));
    tree_check(&tree, "f", "2 one");
    CHECK_ERR(files_edit(tree.files, STR("f"), STR(""), STR("x"), true, &count, &err), ERR_INVALID);
    CHECK_ERR(files_edit(tree.files, STR("f"), STR("2"), STR("2"), true, &count, &err),
              ERR_INVALID);
    test_symlink(tree.dir, "f", "l");
    CHECK_ERR(files_edit(tree.files, STR("l"), STR("2"), STR("3"), true, &count, &err),
              ERR_NOT_A_FILE);
    CHECK_MSG("is a symbolic link");
}

TEST(a_read_only_tree_refuses_every_change)
{
    struct files_options options = {.read_only = true};
    AUTO_TREE struct tree tree = tree_new_with(&options);
    struct err err = {0};
    bool created;
    uint64_t n;
    struct files_delete_result deleted;
    test_write(tree.dir, "f", "x");
    struct files *files = tree.files;
    CHECK_ERR(files_write(files, STR("f"), STR("y"), NULL, &created, &err), ERR_READ_ONLY);
    CHECK_ERR(files_append(files, STR("f"), STR("y"), &n, &err), ERR_READ_ONLY);
    CHECK_ERR(files_mkdir(files, STR("d"), 0755, true, &err), ERR_READ_ONLY);
    CHECK_ERR(files_rename(files, STR("f"), STR("g"), true, &err), ERR_READ_ONLY);
    CHECK_ERR(files_chmod(files, STR("f"), 0, &err), ERR_READ_ONLY);
    CHECK_ERR(files_symlink(files, STR("l"), STR("f"), &err), ERR_READ_ONLY);
    CHECK_ERR(files_delete(files, STR("f"), false, &deleted, &err), ERR_READ_ONLY);
    CHECK_ERR(files_edit(files, STR("f"), STR("x"), STR("y"), false, &n, &err), ERR_READ_ONLY);
    tree_check(&tree, "f", "x");
    CHECK_INT(tree_count(&tree, "."), 1);
}

TEST(a_tree_of_one_owner_keeps_to_it)
{
    struct files_options options = {.has_owner = true, .owner = geteuid() + 1};
    AUTO_TREE struct tree tree = tree_new_with(&options);
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    test_write(tree.dir, "f", "x");
    CHECK_ERR(files_read(tree.files, STR("f"), NULL, &out, &content, &err), ERR_FORBIDDEN);
    tree.files = files_free(tree.files);
    options.owner = geteuid();
    CHECK_OK(files_open(tree.dir, &options, &tree.files, &err));
    CHECK_OK(files_read(tree.files, STR("f"), NULL, &out, &content, &err));
}

TEST(as_after_chroot_the_root_is_the_tree)
{
    struct files_options options = {.in_root = true};
    AUTO_TREE struct tree tree = tree_new_with(&options);
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    test_write(tree.dir, "f", "mine");
    test_symlink(tree.dir, "/f", "l");
    test_symlink(tree.dir, "../../../f", "m");
    static const char *const paths[] = {"/f", "l", "m", "/l", "../f", "/../f"};
    for (size_t i = 0; i < countof(paths); i++) {
        buf_clear(&out);
        CHECK_OK(files_read(tree.files, str_of(paths[i]), NULL, &out, &content, &err));
        CHECK_STR(buf_str(&out), "mine");
    }
    CHECK_ERR(files_read(tree.files, STR("/HOSTFILE"), NULL, &out, &content, &err), ERR_NOT_FOUND);
    CHECK_ERR(files_read(tree.files, STR("../HOSTFILE"), NULL, &out, &content, &err),
              ERR_NOT_FOUND);
}

TEST(a_tree_needs_a_directory)
{
    struct err err = {0};
    struct files *files = NULL;
    test_write(test_tmpdir(), "plain", "");
    char path[300];
    (void)snprintf(path, sizeof path, "%s/plain", test_tmpdir());
    CHECK_ERR(files_open(path, NULL, &files, &err), ERR_NOT_A_DIRECTORY);
    CHECK_ERR(files_open("/nonexistent", NULL, &files, &err), ERR_NOT_FOUND);
    int fds = test_open_fds();
    CHECK_ERR(files_from_fd(open(path, O_RDONLY | O_CLOEXEC), NULL, &files, &err),
              ERR_NOT_A_DIRECTORY);
    CHECK_INT(test_open_fds(), fds);
}
