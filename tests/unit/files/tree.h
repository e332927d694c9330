#pragma once

/* A fresh tree per test, beside a file outside it that nothing may reach. Each program runs twice:
 * with openat2 and, under SG_NO_OPENAT2=1, without. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "files/files.h"
#include "test.h"

#define HOST_SECRET "cnry_5b1f0d9c3a7e4812"

struct tree {
    char outer[256]; /* holds HOSTFILE and the tree */
    char dir[300];   /* the tree */
    struct files *files;
    struct timespec host_mtime;
};

static inline struct timespec tree_host_mtime(const struct tree *tree)
{
    char path[320];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/HOSTFILE", tree->outer);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, sizeof HOST_SECRET - 1);
    return st.st_mtim;
}

static inline struct tree tree_new_with(const struct files_options *options)
{
    static int count;
    struct tree tree = {0};
    struct err err = {0};
    if (getenv("SG_NO_OPENAT2") != NULL)
        fd_without_openat2();
    (void)snprintf(tree.outer, sizeof tree.outer, "%s/outer%d", test_tmpdir(), count++);
    (void)snprintf(tree.dir, sizeof tree.dir, "%s/tree", tree.outer);
    CHECK_OK(fd_make_dirs(tree.dir, 0755, &err));
    test_write(tree.outer, "HOSTFILE", HOST_SECRET);
    CHECK_OK(files_open(tree.dir, options, &tree.files, &err));
    tree.host_mtime = tree_host_mtime(&tree);
    return tree;
}

static inline struct tree tree_new(void)
{
    return tree_new_with(NULL);
}

/* Ends every test: the file outside is as it was. */
static inline void tree_done(struct tree *tree)
{
    struct timespec now = tree_host_mtime(tree);
    assert_true(now.tv_sec == tree->host_mtime.tv_sec && now.tv_nsec == tree->host_mtime.tv_nsec);
    tree->files = files_free(tree->files);
}
#define AUTO_TREE AUTO(tree_done)

static inline void tree_put(struct tree *tree, const char *path, const char *text)
{
    struct err err = {0};
    struct files_write_options options = {.make_parents = true, .no_sync = true};
    bool created;
    CHECK_OK(files_write(tree->files, str_of(path), str_of(text), &options, &created, &err));
}

/* The file's bytes as this program's own eyes see them. */
static inline void tree_check(struct tree *tree, const char *path, const char *expected)
{
    struct err err = {0};
    AUTO_BUF struct buf full = {0}, bytes = {0};
    buf_printf(&full, "%s/%s", tree->dir, path);
    AUTO_CLOSE int fd = open(full.ptr, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    assert_true(fd >= 0);
    CHECK_OK(buf_read_all(&bytes, fd, &err));
    CHECK_STR(buf_str(&bytes), expected);
}

static inline bool tree_has(struct tree *tree, const char *path)
{
    AUTO_BUF struct buf full = {0};
    buf_printf(&full, "%s/%s", tree->dir, path);
    struct stat st;
    return lstat(full.ptr, &st) == 0;
}

struct files_watch;
/* All news up to now, one a line: "create d/f". */
void tree_hear(struct files_watch *watch, struct buf *out);

/* Entries of the directory, temporary ones included. */
int tree_count(struct tree *tree, const char *path);
