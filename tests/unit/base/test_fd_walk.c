/* The walk gives what openat2 gives: the same file or the same errno, for every kind of path. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_internal.h"

static int kernel_open(int dir_fd, const char *path, int flags, unsigned how)
{
    struct open_how open_how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                                .resolve = RESOLVE_NO_MAGICLINKS};
    open_how.resolve |= (how & FD_IN_ROOT) != 0 ? RESOLVE_IN_ROOT : RESOLVE_BENEATH;
    open_how.resolve |= (how & FD_NO_LINKS) != 0 ? RESOLVE_NO_SYMLINKS : 0;
    open_how.resolve |= (how & FD_NO_XDEV) != 0 ? RESOLVE_NO_XDEV : 0;
    /* EAGAIN: another process of this machine renamed something while ".." was looked up. */
    for (int tries = 0;; tries++) {
        int fd = (int)syscall(SYS_openat2, dir_fd, path, &open_how, sizeof open_how);
        /* A walk that the kernel begins again (renames elsewhere on a busy machine) counts the
         * links of its first attempt too, so that a long chain may be too long by chance. */
        bool may_be_chance = errno == EAGAIN || (errno == ELOOP && tries < 20);
        if (fd >= 0 || !may_be_chance || tries == 1000)
            return fd;
    }
}

static void check_same(int dir_fd, const char *path, int flags, unsigned how)
{
    AUTO_CLOSE int expected = kernel_open(dir_fd, path, flags, how);
    int expected_errno = expected < 0 ? errno : 0;
    AUTO_CLOSE int got = fd_walk_open(dir_fd, path, flags | O_CLOEXEC, 0, how);
    int got_errno = got < 0 ? errno : 0;
    if (expected_errno != got_errno)
        print_error("'%.60s' flags %x how %u: openat2 %s, walk %s\n", path, flags, how,
                    strerror(expected_errno), strerror(got_errno));
    CHECK_INT(got_errno, expected_errno);
    if (got < 0)
        return;
    struct stat a, b;
    CHECK_INT(fstat(expected, &a), 0);
    CHECK_INT(fstat(got, &b), 0);
    CHECK(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
}

static void make_tree(const char *dir)
{
    static const char *const links[][2] = {{"a/b/f", "to_file"},
                                           {"a/b", "to_dir"},
                                           {"/a/b/f", "absolute"},
                                           {"../../..", "climbing"},
                                           {"loop2", "loop1"},
                                           {"loop1", "loop2"},
                                           {"absent", "dangling"},
                                           {"to_dir", "twice"},
                                           {"a/../a/b/../b/f", "winding"},
                                           {"a/b/f/", "file_slash"},
                                           {"a/b/", "dir_slash"},
                                           {".", "dot"},
                                           {"/", "root"},
                                           {"..", "up"},
                                           {"/proc/self/root", "proc_root"},
                                           {"/proc/self/fd/0", "fd"},
                                           {"a/b/f/x", "through"},
                                           {"a/b/../../../x", "too_far"}};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/a/b/c", dir);
    struct err err = {0};
    CHECK_OK(fd_make_dirs(path, 0700, &err));
    test_write(dir, "a/b/f", "x");
    for (size_t i = 0; i < countof(links); i++)
        test_symlink(dir, links[i][0], links[i][1]);
    test_symlink(dir, "../f", "a/b/c/back");
    char from[16] = "to_file", to[16];
    for (int i = 0; i < 60; i++) {
        (void)snprintf(to, sizeof to, "chain%d", i);
        test_symlink(dir, from, to);
        memcpy(from, to, sizeof from);
    }
}

TEST(walk_agrees_with_openat2)
{
    static const char *const paths[] = {
        "a",           "a/",         "a/b/f",         "a/b/f/",
        "a//b///f",    "./a/./b/.",  "a/b/..",        "a/b/../b/f",
        "..",          "../x",       "a/../../x",     "/",
        "/a/b/f",      "/..",        "//a",           "to_file",
        "to_file/",    "to_dir",     "to_dir/",       "to_dir/f",
        "to_dir/..",   "absolute",   "climbing",      "climbing/x",
        "loop1",       "loop1/x",    "dangling",      "dangling/x",
        "twice/f",     "winding",    "file_slash",    "dir_slash",
        "dir_slash/f", "dot/a/b/f",  "root",          "root/a",
        "up",          "up/x",       "proc_root",     "fd",
        "through",     "too_far",    "chain0",        "chain38",
        "chain39",     "chain40",    "chain59",       "a/b/c/back",
        "absent",      "a/absent/x", "a/b/f/x",       "",
        ".",           "./",         "a/b/c/../back", "to_dir/c/../../b/f",
    };
    static const int flags[] = {O_RDONLY | O_NONBLOCK,  O_PATH,
                                O_PATH | O_NOFOLLOW,    O_RDONLY | O_NOFOLLOW,
                                O_RDONLY | O_DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                                O_PATH | O_DIRECTORY};
    make_tree(test_tmpdir());
    AUTO_CLOSE int dir_fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int probe = kernel_open(dir_fd, ".", O_PATH, 0);
    if (probe < 0 && errno == ENOSYS)
        SKIP("this kernel has no openat2 to compare with");
    for (size_t p = 0; p < countof(paths); p++)
        for (size_t f = 0; f < countof(flags); f++)
            for (unsigned how = 0; how < 8; how++)
                check_same(dir_fd, paths[p], flags[f], how);
}

TEST(walk_agrees_about_long_names)
{
    char component[300], path[5100];
    memset(component, 'n', sizeof component);
    component[sizeof component - 1] = '\0';
    memset(path, 'p', sizeof path);
    for (size_t i = 1; i < sizeof path; i += 2)
        path[i] = '/';
    path[sizeof path - 1] = '\0';
    AUTO_CLOSE int dir_fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check_same(dir_fd, component, O_RDONLY, 0);
    check_same(dir_fd, path, O_RDONLY, 0);
}

TEST(walk_does_not_leave_the_mount)
{
    AUTO_CLOSE int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check_same(root, "proc/self/status", O_RDONLY, FD_NO_XDEV);
    check_same(root, "proc", O_PATH, FD_NO_XDEV);
    check_same(root, "etc", O_PATH, FD_NO_XDEV);
    check_same(root, "proc/1/status", O_RDONLY, 0);
    check_same(root, "proc/self/root/etc", O_PATH, FD_IN_ROOT);
    check_same(root, "proc/self/cwd", O_PATH, FD_IN_ROOT);
    check_same(root, "proc/self/fd/0", O_RDONLY, FD_IN_ROOT);
    check_same(root, "dev/fd/0", O_RDONLY, FD_IN_ROOT);
}

TEST(a_process_can_do_without_openat2)
{
    struct err err = {0};
    AUTO_CLOSE int dir_fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd_without_openat2();
    test_write(test_tmpdir(), "plain", "x");
    AUTO_CLOSE int good = fd_open_beneath(dir_fd, "plain", O_RDONLY, 0, &err);
    CHECK_OK(good);
    CHECK_ERR(fd_open_beneath(dir_fd, "../x", O_RDONLY, 0, &err), ERR_PATH_ESCAPES);
    AUTO_CLOSE int made = fd_open_beneath(dir_fd, "made", O_WRONLY | O_CREAT | O_EXCL, 0600, &err);
    CHECK_OK(made);
    CHECK_ERR(fd_open_beneath(dir_fd, "made", O_WRONLY | O_CREAT | O_EXCL, 0600, &err),
              ERR_CONFLICT);
}
