/* Trees that are noticed when they change, put back exactly, and compared. */

#include "files/archive/keep.h"
#include "files/mark.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/format/json.h"
#include "files/archive/unified.h"
#include "tree.h"

struct cursor {
    struct str rest;
};

static ssize_t read_cursor(void *ctx, void *space, size_t size, UNUSED struct err *err)
{
    struct cursor *cursor = ctx;
    size_t step = MIN(size, cursor->rest.len);
    memcpy(space, cursor->rest.ptr, step);
    cursor->rest = str_slice(cursor->rest, step, cursor->rest.len);
    return (ssize_t)step;
}

static int append(void *ctx, struct str bytes, struct err *err)
{
    return buf_append(ctx, bytes, err);
}

static void pack(struct tree *tree, struct buf *out)
{
    struct files_sink sink = {append, out};
    struct files_tar_out_options options = {.is_kept = true};
    struct files_tar_result result = {0};
    struct err err = {0};
    CHECK_OK(files_tar_out(tree->files, STR("w"), &sink, &options, &result, &err));
}

static int restore(struct tree *tree, const struct buf *archive, struct err *err)
{
    struct cursor cursor = {buf_str(archive)};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_result result = {0};
    return files_keep_in(tree->files, STR("w"), &source, NULL, &result, err);
}

static struct files_mark mark(struct tree *tree)
{
    struct files_mark mark = {0};
    struct err err = {0};
    CHECK_OK(files_mark(tree->files, STR("w"), &mark, &err));
    return mark;
}

static bool is_same(struct files_mark a, struct files_mark b)
{
    return a.entries == b.entries && a.sum[0] == b.sum[0] && a.sum[1] == b.sum[1];
}

static bool has(struct tree *tree, const char *path)
{
    bool exists = false;
    struct err err = {0};
    CHECK_OK(files_exists(tree->files, str_of(path), &exists, &err));
    return exists;
}

static void check_text(struct tree *tree, const char *path, const char *text)
{
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    struct err err = {0};
    CHECK_OK(files_read(tree->files, str_of(path), NULL, &bytes, &content, &err));
    CHECK_STR(buf_str(&bytes), text);
}

TEST(a_change_is_noticed_and_nothing_else)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    tree_put(&tree, "w/a", "one");
    tree_put(&tree, "w/d/b", "two");
    struct files_mark first = mark(&tree);
    CHECK(is_same(first, mark(&tree)));
    tree_put(&tree, "w/.sandglass/python/x", "installed"); /* the product's own */
    CHECK(is_same(first, mark(&tree)));
    tree_put(&tree, "w/d/c", "more");
    CHECK(!is_same(first, mark(&tree)));
    struct files_delete_result removed = {0};
    CHECK_OK(files_delete(tree.files, STR("w/d/c"), false, &removed, &err));
    CHECK(is_same(first, mark(&tree)));
    tree_put(&tree, "w/a", "ONE"); /* the same size */
    CHECK(!is_same(first, mark(&tree)));
    struct files_mark second = mark(&tree);
    CHECK_OK(files_chmod(tree.files, STR("w/a"), 0600, &err));
    CHECK(!is_same(second, mark(&tree)));
}

TEST(a_tree_is_put_back_exactly)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf archive = {0};
    tree_put(&tree, "w/a", "one");
    tree_put(&tree, "w/d/b", "two");
    tree_put(&tree, "w/.sandglass/note", "mine");
    CHECK_OK(files_chmod(tree.files, STR("w/d/b"), 0755, &err));
    CHECK_OK(files_symlink(tree.files, STR("w/l"), STR("/usr/bin/python3"), &err));
    pack(&tree, &archive);
    tree_put(&tree, "w/a", "changed");
    tree_put(&tree, "w/new/deep/f", "added");
    tree_put(&tree, "w/.sandglass/note", "still mine");
    struct files_delete_result removed = {0};
    CHECK_OK(files_delete(tree.files, STR("w/d"), true, &removed, &err));
    CHECK_OK(files_delete(tree.files, STR("w/l"), false, &removed, &err));
    tree_put(&tree, "w/d", "a file now");
    CHECK_OK(restore(&tree, &archive, &err));
    check_text(&tree, "w/a", "one");
    check_text(&tree, "w/d/b", "two");
    check_text(&tree, "w/.sandglass/note", "still mine");
    CHECK(!has(&tree, "w/new"));
    struct files_stat stat;
    CHECK_OK(files_stat(tree.files, STR("w/d/b"), false, &stat, &err));
    CHECK_INT(stat.mode & 0777, 0755);
    CHECK_OK(files_stat(tree.files, STR("w/l"), false, &stat, &err));
    CHECK_INT(stat.type, FILES_SYMLINK);
    /* Nothing of the way is left. */
    struct files_mark before = mark(&tree);
    CHECK_INT(before.entries, 4);
}

TEST(a_damaged_archive_changes_nothing)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf archive = {0}, half = {0};
    tree_put(&tree, "w/a", "one");
    tree_put(&tree, "w/b", "two");
    pack(&tree, &archive);
    buf_put(&half, str_slice(buf_str(&archive), 0, 700));
    tree_put(&tree, "w/c", "three");
    CHECK(restore(&tree, &half, &err) < 0);
    check_text(&tree, "w/a", "one");
    check_text(&tree, "w/c", "three");
}

static void diff(struct tree *tree, const struct buf *from, const struct buf *to, struct buf *out)
{
    struct cursor a = {buf_str(from)}, b = {to == NULL ? STR("") : buf_str(to)};
    struct files_source first = {read_cursor, &a}, second = {read_cursor, &b};
    struct err err = {0};
    CHECK_OK(files_diff(tree->files, STR("w"), &first, to == NULL ? NULL : &second, out, &err));
}

TEST(two_states_are_compared)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_BUF struct buf first = {0}, second = {0}, live = {0}, both = {0}, none = {0};
    struct files_delete_result removed = {0};
    struct err err = {0};
    tree_put(&tree, "w/a.txt", "one\ntwo\nthree\n");
    tree_put(&tree, "w/gone", "bye\n");
    tree_put(&tree, "w/same", "same");
    tree_put(&tree, "w/.sandglass/x", "own");
    pack(&tree, &first);
    tree_put(&tree, "w/a.txt", "one\n2\nthree\n");
    tree_put(&tree, "w/d/new", "hi");
    tree_put(&tree, "w/bin", "a\xff\n");
    CHECK_OK(files_delete(tree.files, STR("w/gone"), false, &removed, &err));
    diff(&tree, &first, NULL, &live);
    const char *expected =
        "{\"files\":["
        "{\"path\":\"a.txt\",\"change\":\"changed\",\"type\":\"file\",\"sizeBefore\":14,"
        "\"sizeAfter\":12,\"text\":\"@@ -1,3 +1,3 @@\\n one\\n-two\\n+2\\n three\\n\"},"
        "{\"path\":\"bin\",\"change\":\"added\",\"type\":\"file\",\"sizeBefore\":null,"
        "\"sizeAfter\":3,\"text\":null},"
        "{\"path\":\"d/new\",\"change\":\"added\",\"type\":\"file\",\"sizeBefore\":null,"
        "\"sizeAfter\":2,\"text\":\"@@ -0,0 +1 @@\\n+hi\\n\\\\ No newline at end of file\\n\"},"
        "{\"path\":\"gone\",\"change\":\"deleted\",\"type\":\"file\",\"sizeBefore\":4,"
        "\"sizeAfter\":null,\"text\":\"@@ -1 +0,0 @@\\n-bye\\n\"}"
        "],\"count\":4,\"truncated\":false}";
    CHECK_STR(buf_str(&live), expected);
    pack(&tree, &second);
    diff(&tree, &first, &second, &both);
    CHECK_STR(buf_str(&both), expected);
    diff(&tree, &second, NULL, &none);
    CHECK_STR(buf_str(&none), "{\"files\":[],\"count\":0,\"truncated\":false}");
}

/* Applies a diff to `from`, strictly. */
static bool patch(struct str from, struct str hunks, struct buf *out)
{
    struct str line;
    size_t at = 0; /* lines of `from` that were taken */
    while (str_split(&hunks, '\n', &line)) {
        if (line.len == 0)
            continue;
        if (line.ptr[0] == '@') {
            size_t start = strtoul(line.ptr + 4, NULL, 10);
            bool is_empty =
                strstr(line.ptr, ",0 +") != NULL && strstr(line.ptr, ",0 +") < line.ptr + line.len;
            for (; at + !is_empty < start; at++) {
                size_t len = MIN(str_find_char(from, '\n') + 1, from.len);
                buf_put(out, str_slice(from, 0, len));
                from = str_slice(from, len, from.len);
            }
            continue;
        }
        struct str text = str_slice(line, 1, line.len);
        if (line.ptr[0] != '+') {
            size_t len = str_find_char(from, '\n');
            if (!str_eq(str_slice(from, 0, len), text))
                return false;
            from = str_slice(from, len + 1, from.len);
            at++;
        }
        if (line.ptr[0] != '-')
            buf_printf(out, "%.*s\n", STR_ARG(text));
    }
    buf_put(out, from);
    return true;
}

TEST(every_diff_leads_from_one_text_to_the_other)
{
    unsigned seed = 7;
    for (int round = 0; round < 300; round++) {
        AUTO_BUF struct buf a = {0}, b = {0}, hunks = {0}, patched = {0};
        int lines = rand_r(&seed) % 60;
        for (int i = 0; i < lines; i++) {
            int word = rand_r(&seed) % 8, fate = rand_r(&seed) % 10;
            buf_printf(&a, "line %d\n", word);
            if (fate == 0)
                buf_printf(&b, "new %d\n", word);
            if (fate != 1)
                buf_printf(&b, fate == 2 ? "other %d\n" : "line %d\n", word);
        }
        CHECK(unified_diff(buf_str(&a), buf_str(&b), 1 << 20, &hunks));
        CHECK(patch(buf_str(&a), buf_str(&hunks), &patched));
        CHECK(str_eq(buf_str(&patched), buf_str(&b)));
    }
}

TEST(very_different_texts_are_one_change)
{
    AUTO_BUF struct buf a = {0}, b = {0}, hunks = {0}, none = {0};
    for (int i = 0; i < 3000; i++) {
        buf_printf(&a, "a%d\n", i);
        buf_printf(&b, "b%d\n", i);
    }
    CHECK(unified_diff(buf_str(&a), buf_str(&b), 1 << 20, &hunks));
    CHECK(str_starts(buf_str(&hunks), STR("@@ -1,3000 +1,3000 @@\n-a0\n")));
    CHECK(!unified_diff(buf_str(&a), buf_str(&b), 1000, &none));
    CHECK_INT(none.len, 0);
}
