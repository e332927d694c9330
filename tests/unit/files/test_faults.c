/* The n-th system call fails, for every n: what was there stays or is wholly replaced, no
 * descriptor and no temporary file is left. */

#include <errno.h>

#include "base/sys.h"
#include "files/archive/tar.h"
#include "tree.h"
#include "ustar.h"

#ifdef SG_FAULTS

struct job {
    int (*run)(struct tree *tree, struct err *err);
    void (*prepare)(struct tree *tree);
    bool (*is_whole)(struct tree *tree, int result);
};

static void clear(struct tree *tree)
{
    struct err err = {0};
    struct files_delete_result deleted;
    CHECK_OK(files_delete(tree->files, STR("."), true, &deleted, &err));
}

/* Runs the job once for each of its calls to fail. Some failures are survived: a result of 0 must
 * then be as whole as any. */
static void walk_failures(const struct job *job)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    job->prepare(&tree);
    (void)sys_fail_at(0);
    CHECK_OK(job->run(&tree, &err));
    int64_t calls = sys_fail_at(0);
    CHECK(calls > 3);
    CHECK(job->is_whole(&tree, 0));
    for (int64_t n = 1; n <= calls; n++) {
        clear(&tree);
        job->prepare(&tree);
        int fds = test_open_fds();
        err = (struct err){0};
        (void)sys_fail_at(n);
        int result = job->run(&tree, &err);
        (void)sys_fail_at(0);
        CHECK(result == 0 || (err.code != ERR_NONE && err.msg[0] != '\0'));
        CHECK_INT(test_open_fds(), fds);
        if (!job->is_whole(&tree, result))
            print_error("call %d of %d, result %d: %s\n", (int)n, (int)calls, result, err.msg);
        CHECK(job->is_whole(&tree, result));
    }
}

static bool holds(struct tree *tree, const char *path, const char *text)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    return files_read(tree->files, str_of(path), NULL, &out, &content, &err) == 0 &&
           str_eq(buf_str(&out), str_of(text));
}

static void prepare_file(struct tree *tree)
{
    tree_put(tree, "d/f", "old");
}

static int write_file(struct tree *tree, struct err *err)
{
    bool created;
    return files_write(tree->files, STR("d/f"), STR("new"), NULL, &created, err);
}

static bool is_old_or_new(struct tree *tree, int result)
{
    bool is_new = holds(tree, "d/f", "new");
    return tree_count(tree, "d") == 1 &&
           (result == 0 ? is_new : is_new || holds(tree, "d/f", "old"));
}

TEST(write_survives_the_nth_failure)
{
    walk_failures(&(struct job){write_file, prepare_file, is_old_or_new});
}

static int edit_file(struct tree *tree, struct err *err)
{
    uint64_t count;
    return files_edit(tree->files, STR("d/f"), STR("old"), STR("new"), false, &count, err);
}

TEST(edit_survives_the_nth_failure)
{
    walk_failures(&(struct job){edit_file, prepare_file, is_old_or_new});
}

static void prepare_tree(struct tree *tree)
{
    tree_put(tree, "d/e/f", "x");
    tree_put(tree, "d/g", "x");
    tree_put(tree, "keep", "x");
}

static int delete_tree(struct tree *tree, struct err *err)
{
    struct files_delete_result deleted;
    return files_delete(tree->files, STR("d"), true, &deleted, err);
}

static bool is_deleted(struct tree *tree, int result)
{
    return holds(tree, "keep", "x") && (result < 0 || !tree_has(tree, "d"));
}

TEST(delete_survives_the_nth_failure)
{
    walk_failures(&(struct job){delete_tree, prepare_tree, is_deleted});
}

struct cursor {
    struct str rest;
};

/* Every write is interrupted, then takes two bytes: nothing of it may show. */
static void check_short_writes(const struct job *job)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    job->prepare(&tree);
    (void)sys_short_writes(2);
    CHECK_OK(job->run(&tree, &err));
    CHECK(sys_short_writes(0) >= 4); /* two interrupts, two pieces */
    CHECK(job->is_whole(&tree, 0));
}

/* As walk_failures, with the one that a writer has to try again. */
static void walk_interrupts(const struct job *job)
{
    sys_fail_errno(EINTR);
    walk_failures(job);
    sys_fail_errno(EIO);
}

#define LONG_TEXT "a text that takes more than one write, and of which nothing may be left out"

static int write_long(struct tree *tree, struct err *err)
{
    bool created;
    return files_write(tree->files, STR("d/f"), STR(LONG_TEXT), NULL, &created, err);
}

static bool is_old_or_long(struct tree *tree, int result)
{
    bool is_new = holds(tree, "d/f", LONG_TEXT);
    return tree_count(tree, "d") == 1 &&
           (result == 0 ? is_new : is_new || holds(tree, "d/f", "old"));
}

TEST(short_and_interrupted_writes_are_gone_on_with)
{
    check_short_writes(&(struct job){write_long, prepare_file, is_old_or_long});
    check_short_writes(&(struct job){edit_file, prepare_file, is_old_or_new});
    walk_interrupts(&(struct job){write_long, prepare_file, is_old_or_long});
    walk_interrupts(&(struct job){edit_file, prepare_file, is_old_or_new});
}

static ssize_t read_cursor(void *ctx, void *space, size_t size, UNUSED struct err *err)
{
    struct cursor *cursor = ctx;
    size_t step = MIN(size, cursor->rest.len);
    memcpy(space, cursor->rest.ptr, step);
    cursor->rest = str_slice(cursor->rest, step, cursor->rest.len);
    return (ssize_t)step;
}

static int unpack(struct tree *tree, enum files_tar_place place, struct err *err)
{
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "f", '0', "", "new");
    ustar_add(&tar, "s/g", '0', "", "new");
    ustar_add(&tar, "s/l", '2', "g", "");
    ustar_end(&tar);
    struct cursor cursor = {buf_str(&tar)};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_result result;
    return files_tar_in(tree->files, STR("d"), place, &source, NULL, &result, err);
}

static int unpack_over(struct tree *tree, struct err *err)
{
    return unpack(tree, FILES_TAR_REPLACE, err);
}

static bool is_old_or_unpacked(struct tree *tree, int result)
{
    bool is_new = holds(tree, "d/f", "new") && holds(tree, "d/s/l", "new");
    bool is_old = holds(tree, "d/f", "old") && !tree_has(tree, "d/s");
    return tree_count(tree, ".") == 1 && (result == 0 ? is_new : is_new || is_old);
}

TEST(tar_in_survives_the_nth_failure)
{
    walk_failures(&(struct job){unpack_over, prepare_file, is_old_or_unpacked});
}

TEST(tar_in_goes_on_with_short_and_interrupted_writes)
{
    check_short_writes(&(struct job){unpack_over, prepare_file, is_old_or_unpacked});
    walk_interrupts(&(struct job){unpack_over, prepare_file, is_old_or_unpacked});
}

static int count_bytes(void *ctx, struct str bytes, UNUSED struct err *err)
{
    *(size_t *)ctx += bytes.len;
    return 0;
}

static int pack_tree(struct tree *tree, struct err *err)
{
    size_t total = 0;
    struct files_sink sink = {count_bytes, &total};
    struct files_tar_result result;
    return files_tar_out(tree->files, STR("."), &sink, NULL, &result, err);
}

static bool is_untouched(struct tree *tree, UNUSED int result)
{
    return holds(tree, "d/e/f", "x") && holds(tree, "keep", "x") && tree_count(tree, ".") == 2;
}

TEST(tar_out_survives_the_nth_failure)
{
    walk_failures(&(struct job){pack_tree, prepare_tree, is_untouched});
}

static int list_and_glob(struct tree *tree, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct files_list list;
    struct files_glob glob;
    struct files_list_options options = {.recursive = true};
    if (files_list(tree->files, STR("."), &options, &arena, &list, err) < 0)
        return -1;
    return files_glob(tree->files, STR("."), STR("**"), NULL, &arena, &glob, err);
}

TEST(list_and_glob_survive_the_nth_failure)
{
    walk_failures(&(struct job){list_and_glob, prepare_tree, is_untouched});
}

#else

TEST(files_survive_the_nth_failure)
{
    SKIP("this build cannot fail system calls on purpose (-Dfaults=true)");
}

#endif
