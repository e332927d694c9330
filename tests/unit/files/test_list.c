/* Lists and globs over trees: order, pages, limits. */

#include "base/id.h"
#include "tree.h"

static struct files_list list(struct tree *tree, struct arena *arena, struct files_list_options how)
{
    struct err err = {0};
    struct files_list found = {0};
    CHECK_OK(files_list(tree->files, STR("."), &how, arena, &found, &err));
    return found;
}

TEST(list_gives_type_size_and_order)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    tree_put(&tree, "b", "12345");
    tree_put(&tree, "a/z", "1");
    tree_put(&tree, "a.x", "1");
    test_symlink(tree.dir, "b", "c");
    struct files_list found = list(&tree, &arena, (struct files_list_options){0});
    CHECK_INT(found.count, 4);
    CHECK_STR(found.entries[0].path, "a");
    CHECK_INT(found.entries[0].stat.type, FILES_DIRECTORY);
    CHECK_STR(found.entries[1].path, "a.x");
    CHECK_STR(found.entries[2].path, "b");
    CHECK(found.entries[2].stat.type == FILES_REGULAR && found.entries[2].stat.size == 5);
    CHECK_INT(found.entries[3].stat.type, FILES_SYMLINK);
    found = list(&tree, &arena, (struct files_list_options){.recursive = true});
    CHECK_INT(found.count, 5);
    CHECK_STR(found.entries[1].path, "a/z");
    CHECK_STR(found.entries[2].path, "a.x");
    CHECK_ERR(files_list(tree.files, STR("b"), NULL, &arena, &found, &err), ERR_NOT_A_DIRECTORY);
    CHECK_ERR(files_list(tree.files, STR("no"), NULL, &arena, &found, &err), ERR_NOT_FOUND);
    CHECK_ERR(files_list(tree.files, STR(".."), NULL, &arena, &found, &err), ERR_PATH_ESCAPES);
}

/* However small the pages, together they are the whole list. */
TEST(list_pages_add_up)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    char path[64];
    for (int i = 0; i < 60; i++) {
        (void)snprintf(path, sizeof path, "%c%d/%c/f%d", 'a' + i % 3, i % 5, 'x' + i % 2, i);
        tree_put(&tree, path, "x");
    }
    struct files_list whole = list(&tree, &arena, (struct files_list_options){.recursive = true});
    CHECK(whole.count > 60 && !whole.truncated);
    for (size_t limit = 1; limit < 20; limit += 3) {
        size_t at = 0;
        struct str after = {0};
        bool more = true;
        while (more) {
            struct files_list page = list(
                &tree, &arena,
                (struct files_list_options){.recursive = true, .limit = limit, .after = after});
            CHECK(page.count <= limit && page.count > 0);
            for (size_t i = 0; i < page.count; i++)
                CHECK(str_eq(page.entries[i].path, whole.entries[at++].path));
            after = page.entries[page.count - 1].path;
            more = page.truncated;
        }
        CHECK_INT(at, whole.count);
    }
}

TEST(a_cursor_outlives_its_entry)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    tree_put(&tree, "a/f", "x");
    tree_put(&tree, "c", "x");
    struct files_list found =
        list(&tree, &arena, (struct files_list_options){.recursive = true, .after = STR("a/gone")});
    CHECK_INT(found.count, 1);
    CHECK_STR(found.entries[0].path, "c");
    found =
        list(&tree, &arena, (struct files_list_options){.recursive = true, .after = STR("b/gone")});
    CHECK_INT(found.count, 1);
    found = list(&tree, &arena, (struct files_list_options){.recursive = true, .after = STR("a")});
    CHECK_STR(found.entries[0].path, "a/f");
}

TEST(glob_over_a_tree_is_sorted_and_capped)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct files_glob found = {0};
    char path[64];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(path, sizeof path, "d%d/e%d/f%02d.c", i % 4, i % 3, i);
        tree_put(&tree, path, "x");
    }
    tree_put(&tree, "d0/.hidden/x.c", "x");
    test_symlink(tree.dir, "../HOSTFILE", "out.c");
    test_symlink(tree.dir, "..", "up");
    CHECK_OK(files_glob(tree.files, STR("."), STR("**/*.c"), NULL, &arena, &found, &err));
    CHECK_INT(found.count, 52); /* the link itself is an entry; what it leads to is not */
    for (size_t i = 1; i < found.count; i++)
        CHECK(str_cmp(found.paths[i - 1], found.paths[i]) < 0);
    struct str first = found.paths[0];
    struct files_glob_options options = {.limit = 3};
    CHECK_OK(files_glob(tree.files, STR("."), STR("**/*.c"), &options, &arena, &found, &err));
    CHECK(found.count == 3 && found.truncated && str_eq(found.paths[0], first));
    options = (struct files_glob_options){.skip_hidden = true};
    CHECK_OK(files_glob(tree.files, STR("d0"), STR("./**"), &options, &arena, &found, &err));
    CHECK_INT(found.count, 13);
    CHECK_OK(files_glob(tree.files, STR("."), STR("d1/e1/*"), NULL, &arena, &found, &err));
    CHECK(found.count > 0 && str_starts(found.paths[0], STR("d1/e1/")));
    options = (struct files_glob_options){.with_dirs = true};
    CHECK_OK(files_glob(tree.files, STR("."), STR("d?"), &options, &arena, &found, &err));
    CHECK_INT(found.count, 4);
    CHECK_OK(files_glob(tree.files, STR("."), STR("none/at/all/*"), NULL, &arena, &found, &err));
    CHECK_INT(found.count, 0);
    CHECK_ERR(files_glob(tree.files, STR("."), STR("[a"), NULL, &arena, &found, &err),
              ERR_INVALID_PATTERN);
    CHECK_ERR(files_glob(tree.files, STR("up"), STR("*"), NULL, &arena, &found, &err),
              ERR_PATH_ESCAPES);
    CHECK_ERR(files_glob(tree.files, STR("out.c"), STR("*"), NULL, &arena, &found, &err),
              ERR_PATH_ESCAPES);
}

/* FS-08: every name comes back as it is, and is good for reading and deleting. */
TEST(strange_names_are_lossless)
{
    static const char *const names[] = {"new\nline", "esc\x1b[31m", "\"quoted\"", "back\\slash",
                                        "-rf",       "\xff\xfe",    "$(touch X)", "; touch X",
                                        " blank ",   "tab\t",       "*",          "[a]",
                                        "..%c0%af",  "%2e%2e%2f",   "..\\..",     "{a,b}"};
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    tree_put(&tree, longest, "x");
    for (size_t i = 0; i < countof(names); i++)
        tree_put(&tree, names[i], "x");
    struct files_list found = list(&tree, &arena, (struct files_list_options){0});
    struct files_glob globbed = {0};
    CHECK_OK(files_glob(tree.files, STR("."), STR("*"), NULL, &arena, &globbed, &err));
    CHECK_INT(found.count, countof(names) + 1);
    CHECK_INT(globbed.count, found.count);
    for (size_t i = 0; i < found.count; i++) {
        AUTO_BUF struct buf out = {0};
        struct files_content content;
        struct files_delete_result deleted;
        CHECK(str_eq(found.entries[i].path, globbed.paths[i]));
        CHECK_OK(files_read(tree.files, found.entries[i].path, NULL, &out, &content, &err));
        CHECK_STR(buf_str(&out), "x");
        CHECK_OK(files_delete(tree.files, found.entries[i].path, false, &deleted, &err));
    }
    CHECK_INT(tree_count(&tree, "."), 0); /* and no X was made */
}
