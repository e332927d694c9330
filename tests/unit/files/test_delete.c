/* Removing what was built to be hard to remove (FS-09, FS-13). */

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tree.h"

TEST(delete_removes_files_links_and_trees)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    struct files_delete_result result = {0};
    tree_put(&tree, "d/e/f", "x");
    tree_put(&tree, "keep/f", "x");
    test_symlink(tree.dir, "keep", "d/link");
    test_symlink(tree.dir, "/", "d/e/root");
    test_symlink(tree.dir, "../../..", "d/up");
    CHECK_ERR(files_delete(tree.files, STR("d"), false, &result, &err), ERR_CONFLICT);
    CHECK_MSG("recursive");
    CHECK_OK(files_delete(tree.files, STR("d/link"), true, &result, &err));
    CHECK_INT(result.removed, 1);
    CHECK_OK(files_delete(tree.files, STR("d"), true, &result, &err));
    CHECK_INT(result.removed, 5);
    CHECK(!tree_has(&tree, "d") && tree_has(&tree, "keep/f"));
    CHECK_ERR(files_delete(tree.files, STR("d"), true, &result, &err), ERR_NOT_FOUND);
    CHECK_ERR(files_delete(tree.files, STR(".."), true, &result, &err), ERR_INVALID);
    CHECK_ERR(files_delete(tree.files, STR("../HOSTFILE"), true, &result, &err), ERR_PATH_ESCAPES);
    CHECK_OK(files_mkdir(tree.files, STR("empty"), 0755, false, &err));
    CHECK_OK(files_delete(tree.files, STR("empty"), false, &result, &err));
    CHECK_ERR(files_delete(tree.files, STR("."), false, &result, &err), ERR_INVALID);
    CHECK_OK(files_delete(tree.files, STR("."), true, &result, &err));
    CHECK_INT(tree_count(&tree, "."), 0);
}

static void nest(const char *dir, int levels)
{
    AUTO_CLOSE int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < levels; i++) {
        CHECK_INT(mkdirat(at, "d", 0700), 0);
        AUTO_CLOSE int file = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK(file >= 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        fd_close(&at);
        at = next;
    }
}

TEST(delete_goes_down_five_thousand_levels)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct files_delete_result result = {0};
    nest(tree.dir, 5000);
    int fds = test_open_fds();

    struct files_list found = {0};
    struct files_list_options options = {.recursive = true};
    CHECK_OK(files_list(tree.files, STR("."), &options, &arena, &found, &err));
    CHECK(found.count > 4000 && found.too_deep > 0);
    struct files_glob globbed = {0};
    CHECK_OK(files_glob(tree.files, STR("."), STR("**"), NULL, &arena, &globbed, &err));
    CHECK(globbed.count == FILES_GLOB_MAX && globbed.truncated);

    CHECK_OK(files_delete(tree.files, STR("d"), true, &result, &err));
    CHECK_INT(result.removed, 4999 * 2 + 1);
    CHECK(!tree_has(&tree, "d"));
    CHECK_INT(test_open_fds(), fds);
}

TEST(delete_empties_wide_directories)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    struct files_delete_result result = {0};
    CHECK_OK(files_mkdir(tree.files, STR("w"), 0755, false, &err));
    char path[400];
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(path, sizeof path, "%s/w/%d", tree.dir, i);
        if (i % 3 == 0) {
            CHECK_INT(mkdir(path, 0700), 0);
            test_write(path, "f", "x");
        } else {
            test_write(tree.dir, path + strlen(tree.dir) + 1, "");
        }
    }
    CHECK_OK(files_delete(tree.files, STR("w"), true, &result, &err));
    CHECK_INT(result.removed, 4001);
}

/* As an ordinary user, for whom modes are an obstacle. Exits 0 when all went well. */
static void delete_locked_dirs(const char *dir)
{
    struct err err = {0};
    struct files_delete_result result = {0};
    AUTO_FILES struct files *files = NULL;
    if (files_open(dir, NULL, &files, &err) < 0 ||
        files_mkdir(files, STR("a/b/c"), 0755, true, &err) < 0 ||
        files_mkdir(files, STR("a/r"), 0755, true, &err) < 0)
        _exit(2);
    bool created;
    struct files_write_options options = {.no_sync = true};
    if (files_write(files, STR("a/b/c/f"), STR("x"), &options, &created, &err) < 0 ||
        files_write(files, STR("a/r/f"), STR("x"), &options, &created, &err) < 0)
        _exit(3);
    if (files_chmod(files, STR("a/b/c"), 0, &err) < 0 ||
        files_chmod(files, STR("a/b"), 0, &err) < 0 ||
        files_chmod(files, STR("a/r"), 0500, &err) < 0)
        _exit(4);
    if (files_delete(files, STR("a"), true, &result, &err) < 0) {
        (void)fprintf(stderr, "# %s\n", err.msg);
        _exit(5);
    }
    _exit(result.removed == 6 ? 0 : 6);
}

TEST(delete_opens_directories_of_mode_000)
{
    if (geteuid() != 0)
        SKIP("needs root, to become an ordinary user with a directory of its own");
    AUTO_TREE struct tree tree = tree_new();
    CHECK_INT(chmod(test_tmpdir(), 0755), 0);
    CHECK_INT(chown(tree.dir, 65534, 65534), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        delete_locked_dirs(tree.dir);
    }
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    CHECK(!tree_has(&tree, "a"));
}

/* In a mount namespace of its own: the tree holds a bind mount of a directory outside. */
static void delete_around_mount(struct tree *tree)
{
    struct err err = {0};
    struct files_delete_result result = {0};
    char path[400], source[300];
    (void)snprintf(path, sizeof path, "%s/d/mnt", tree->dir);
    (void)snprintf(source, sizeof source, "%s/foreign", tree->outer);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(source, path, NULL, MS_BIND, NULL) < 0)
        _exit(77);
    if (files_delete(tree->files, STR("d"), true, &result, &err) == 0)
        _exit(2);
    (void)fprintf(stderr, "# %s\n", err.msg);
    _exit(result.kept == 1 && result.removed == 2 ? 0 : 3);
}

TEST(delete_does_not_cross_mounts)
{
    AUTO_TREE struct tree tree = tree_new();
    char path[400];
    tree_put(&tree, "d/mnt/hidden", "x");
    tree_put(&tree, "d/e/f", "x");
    (void)snprintf(path, sizeof path, "%s/foreign", tree.outer);
    CHECK_INT(mkdir(path, 0755), 0);
    test_write(path, "precious", "x");
    pid_t child = fork();
    if (child == 0) {
        if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
            _exit(77);
        delete_around_mount(&tree);
    }
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no mount namespace available");
    CHECK_INT(status, 0);
    (void)snprintf(path, sizeof path, "%s/foreign/precious", tree.outer);
    CHECK_INT(access(path, F_OK), 0);
    CHECK(!tree_has(&tree, "d/e") && tree_has(&tree, "d/mnt"));
}

/* FS-13: another process writes while the tree is deleted. It ends, and removes nothing else. */
TEST(delete_ends_while_another_process_writes)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    struct files_delete_result result = {0};
    tree_put(&tree, "d/e/f", "x");
    tree_put(&tree, "keep", "x");
    pid_t writer = fork();
    if (writer == 0) {
        char path[400];
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(path, sizeof path, "%s/d/n%d", tree.dir, i);
            (void)mkdir(path, 0700);
        }
        _exit(0);
    }
    int done = files_delete(tree.files, STR("d"), true, &result, &err);
    CHECK_INT(waitpid(writer, NULL, 0), writer);
    CHECK(done == 0 || err.code == ERR_CONFLICT);
    if (done < 0)
        CHECK_OK(files_delete(tree.files, STR("d"), true, &result, &err));
    CHECK(!tree_has(&tree, "d") && tree_has(&tree, "keep"));
}
