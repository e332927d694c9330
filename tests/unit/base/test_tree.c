/* Trees with hostile contents. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/tree.h"

static int make_dir(int at, const char *name)
{
    CHECK_INT(mkdirat(at, name, 0755), 0);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void make_file(int at, const char *name)
{
    AUTO_CLOSE int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
}

static int open_top(void)
{
    int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static bool is_there(int at, const char *name)
{
    return faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* `deep` levels, a file and a link in each. */
static void fill(int at, int deep)
{
    AUTO_CLOSE int dir = fcntl(at, F_DUPFD_CLOEXEC, 0);
    for (int i = 0; i < deep; i++) {
        make_file(dir, "file");
        CHECK_INT(symlinkat("/", dir, "root"), 0);
        int next = make_dir(dir, "d");
        fd_close(&dir);
        dir = next;
    }
}

TEST(deep_trees_go)
{
    struct err err = {0};
    AUTO_CLOSE int top = open_top();
    AUTO_CLOSE int trash = make_dir(top, "trash1");
    AUTO_CLOSE int tree = make_dir(top, "tree");
    fill(tree, 5000);
    int fds = test_open_fds();
    CHECK_OK(tree_discard(top, "tree", trash, &err));
    CHECK(!is_there(top, "tree"));
    CHECK_OK(tree_reclaim(trash, &err));
    CHECK_INT(test_open_fds(), fds);
    CHECK_INT(unlinkat(top, "trash1", AT_REMOVEDIR), 0);
}

TEST(a_missing_tree_is_said)
{
    struct err err = {0};
    AUTO_CLOSE int top = open_top();
    CHECK_ERR(tree_discard(top, "absent", top, &err), ERR_NOT_FOUND);
}

TEST(links_are_not_followed)
{
    struct err err = {0};
    AUTO_CLOSE int top = open_top();
    AUTO_CLOSE int trash = make_dir(top, "trash2");
    AUTO_CLOSE int other = make_dir(top, "other");
    AUTO_CLOSE int tree = make_dir(top, "linked");
    make_file(other, "kept");
    CHECK_INT(symlinkat("../other", tree, "out"), 0);
    CHECK_INT(symlinkat("../other/kept", tree, "file"), 0);
    CHECK_INT(mkfifoat(tree, "fifo", 0600), 0);
    CHECK_OK(tree_discard(top, "linked", trash, &err));
    CHECK_OK(tree_reclaim(trash, &err));
    CHECK(is_there(other, "kept"));
}

/* In a child, as a user without privilege: root passes modes by. */
static int remove_locked(int top)
{
    struct err err = {0};
    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        return 2;
    int home = openat(top, "free", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(home, "a", 0755) < 0 || mkdirat(home, "a/b", 0755) < 0 ||
        mkdirat(home, "a/b/c", 0755) < 0 || mkdirat(home, "a/b/c/d", 0755) < 0 ||
        mkdirat(home, "trash", 0755) < 0)
        return 3;
    int trash = openat(home, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fchmodat(home, "a/b/c", 0, 0) < 0 || fchmodat(home, "a/b", 0500, 0) < 0 ||
        fchmodat(home, "a", 0, 0) < 0)
        return 4;
    if (tree_discard(home, "a", trash, &err) < 0 || tree_reclaim(trash, &err) < 0)
        return 5;
    return is_there(home, "a") || unlinkat(home, "trash", AT_REMOVEDIR) < 0 ? 6 : 0;
}

TEST(modes_are_no_obstacle)
{
    AUTO_CLOSE int top = open_top();
    CHECK_INT(mkdirat(top, "free", 0777), 0);
    CHECK_INT(fchmodat(top, "free", 0777, 0), 0);
    CHECK_INT(chmod(test_tmpdir(), 0755), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(remove_locked(top));
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

static int remove_around_mount(int top)
{
    struct err err = {0};
    char path[PATH_MAX], src[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/mounted/a/here", test_tmpdir());
    (void)snprintf(src, sizeof src, "%s/precious", test_tmpdir());
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(src, path, NULL, MS_BIND, NULL) < 0)
        return 77;
    int trash = openat(top, "trash3", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree_discard(top, "mounted", trash, &err) < 0)
        return 2;
    if (tree_reclaim(trash, &err) == 0 || strstr(err.msg, "mount") == NULL)
        return 3;
    return is_there(top, "precious/kept") ? 0 : 4;
}

TEST(mounts_are_not_crossed)
{
    struct err err = {0};
    AUTO_CLOSE int top = open_top();
    AUTO_CLOSE int trash = make_dir(top, "trash3");
    AUTO_CLOSE int precious = make_dir(top, "precious");
    AUTO_CLOSE int tree = make_dir(top, "mounted");
    AUTO_CLOSE int inner = make_dir(tree, "a");
    AUTO_CLOSE int here = make_dir(inner, "here");
    CHECK(here >= 0);
    make_file(precious, "kept");
    fill(tree, 50);
    pid_t pid = fork();
    if (pid == 0)
        _exit(remove_around_mount(top));
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        SKIP("no right to mount");
    CHECK_INT(status, 0);
    CHECK_OK(tree_reclaim(trash, &err));
    CHECK(is_there(precious, "kept"));
    CHECK_INT(unlinkat(top, "trash3", AT_REMOVEDIR), 0);
}

#ifdef SG_FAULTS
TEST(a_second_run_finishes_what_a_failure_left)
{
    AUTO_CLOSE int top = open_top();
    AUTO_CLOSE int trash = make_dir(top, "trash4");
    for (int64_t nth = 1; nth < 60; nth++) {
        struct err err = {0};
        AUTO_CLOSE int tree = make_dir(top, "faulty");
        fill(tree, 4);
        int fds = test_open_fds();
        (void)sys_fail_at(nth);
        int done = tree_discard(top, "faulty", trash, &err);
        if (done == 0)
            done = tree_reclaim(trash, &err);
        (void)sys_fail_at(0);
        CHECK_INT(test_open_fds(), fds);
        if (is_there(top, "faulty"))
            CHECK_OK(tree_discard(top, "faulty", trash, &err));
        CHECK_OK(tree_reclaim(trash, &err));
        CHECK(!is_there(top, "faulty"));
    }
    CHECK_INT(unlinkat(top, "trash4", AT_REMOVEDIR), 0);
}
#endif
