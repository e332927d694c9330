#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

static int open_dir(void)
{
    int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST(fd_open_beneath_stays_inside)
{
    struct err err = {0};
    const char *dir = test_tmpdir();
    AUTO_CLOSE int dir_fd = open_dir();
    test_write(dir, "inside", "hi");
    test_symlink(dir, "inside", "link");
    test_symlink(dir, "/etc/passwd", "absolute");
    test_symlink(dir, "../../../../etc/passwd", "climbing");
    test_symlink(dir, "loop", "loop");

    AUTO_CLOSE int good = fd_open_beneath(dir_fd, "inside", O_RDONLY, 0, &err);
    CHECK(good >= 0);
    CHECK_INT(fcntl(good, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    AUTO_CLOSE int through_link = fd_open_beneath(dir_fd, "link", O_RDONLY, 0, &err);
    CHECK(through_link >= 0);
    CHECK_ERR(fd_open_beneath(dir_fd, "absolute", O_RDONLY, 0, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(fd_open_beneath(dir_fd, "climbing", O_RDONLY, 0, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(fd_open_beneath(dir_fd, "/etc/passwd", O_RDONLY, 0, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(fd_open_beneath(dir_fd, "../x", O_RDONLY, 0, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(fd_open_beneath(dir_fd, "loop", O_RDONLY, 0, &err), ERR_INVALID);
    CHECK_ERR(fd_open_beneath(dir_fd, "absent", O_RDONLY, 0, &err), ERR_NOT_FOUND);
    CHECK_MSG("open 'absent': No such file or directory");
}

TEST(fd_replace_file_replaces_a_link_and_keeps_its_target)
{
    struct err err = {0};
    const char *dir = test_tmpdir();
    AUTO_CLOSE int dir_fd = open_dir();
    test_write(dir, "target", "untouched");
    test_symlink(dir, "target", "replaced");
    CHECK_OK(fd_replace_file(dir_fd, "replaced", STR("new"), 0600, &err));
    struct stat st;
    CHECK_INT(fstatat(dir_fd, "replaced", &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(S_ISREG(st.st_mode));
    CHECK_INT(st.st_mode & 0777, 0600);
    AUTO_CLOSE int fd = fd_open_beneath(dir_fd, "target", O_RDONLY, 0, &err);
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(buf_read_all(&bytes, fd, &err));
    CHECK_STR(buf_str(&bytes), "untouched");
}

TEST(fd_make_dirs_makes_all_of_them)
{
    struct err err = {0};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/a/b//c", test_tmpdir());
    CHECK_OK(fd_make_dirs(path, 0700, &err));
    CHECK_OK(fd_make_dirs(path, 0700, &err));
    test_write(test_tmpdir(), "file", "");
    (void)snprintf(path, sizeof path, "%s/file", test_tmpdir());
    CHECK_ERR(fd_make_dirs(path, 0700, &err), ERR_NOT_A_DIRECTORY);
    CHECK_MSG("is not a directory");
    (void)snprintf(path, sizeof path, "%s/file/below", test_tmpdir());
    CHECK_ERR(fd_make_dirs(path, 0700, &err), ERR_NOT_A_DIRECTORY);
}

TEST(fd_write_all_reports_a_full_disk)
{
    struct err err = {0};
    AUTO_CLOSE int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_ERR(fd_write_all(full, STR("x"), &err), ERR_NO_SPACE);
}

static int make_true(mode_t mode)
{
    struct err err = {0};
    AUTO_CLOSE int from = open("/bin/true", O_RDONLY | O_CLOEXEC);
    AUTO_BUF struct buf bytes = buf_with_limit(16 << 20);
    CHECK_OK(buf_read_all(&bytes, from, &err));
    int fd = fd_sealed_program("true", buf_str(&bytes), mode, &err);
    CHECK(fd >= 0);
    return fd;
}

TEST(fd_sealed_program_cannot_be_changed)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL, EXEC = 0x20 };
    struct stat st;
    AUTO_CLOSE int fd = make_true(0111);
    CHECK_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_mode & 07777, 0111);
    CHECK_INT(fcntl(fd, F_GET_SEALS) & SEALS, SEALS);
    CHECK_INT(pwrite(fd, "x", 1, 0), -1);
    CHECK_INT(ftruncate(fd, 0), -1);
    CHECK_INT(ftruncate(fd, st.st_size + 1), -1);
    if ((fcntl(fd, F_GET_SEALS) & EXEC) != 0) /* since Linux 6.3 */
        CHECK_INT(fchmod(fd, 0444), -1);
}

TEST(fd_sealed_program_runs)
{
    AUTO_CLOSE int fd = make_true(0555);
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {(char[]){"true"}, NULL}, *env[] = {NULL};
        (void)fexecve(fd, argv, env);
        _exit(127);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}
