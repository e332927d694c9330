/* The n-th system call fails, for every n: each error path is walked, says what failed, leaks no
 * descriptor and leaves no file behind. */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/crypto/secret.h"
#include "base/fd.h"
#include "base/sys.h"

#ifdef SG_FAULTS
static int files_in(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return -1;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, "deep") != 0; /* which comes and goes */
    (void)closedir(dir);
    return count;
}

static int replace_and_read(int dir_fd, struct err *err)
{
    if (fd_replace_file(dir_fd, "state", STR("the new state"), 0600, err) < 0)
        return -1;
    AUTO_CLOSE int fd = fd_open_beneath(dir_fd, "state", O_RDONLY, 0, err);
    if (fd < 0)
        return -1;
    AUTO_BUF struct buf bytes = {0};
    if (buf_read_all(&bytes, fd, err) < 0)
        return -1;
    unsigned char digest[HASH_SHA512_SIZE];
    if (lseek(fd, 0, SEEK_SET) < 0 || hash_sha512_fd(fd, digest, err) < 0)
        return -1;
    char below[512], deep[512];
    (void)snprintf(deep, sizeof deep, "%s/deep", test_tmpdir());
    (void)snprintf(below, sizeof below, "%s/deep/er", test_tmpdir());
    (void)rmdir(below); /* created again each time */
    (void)rmdir(deep);
    if (fd_make_dirs(below, 0700, err) < 0)
        return -1;
    AUTO_SECRET struct secret *secret = NULL;
    return secret_new(buf_str(&bytes), &secret, err);
}
#endif

TEST(base_survives_the_nth_failure)
{
#ifndef SG_FAULTS
    SKIP("this build cannot fail system calls on purpose (-Dfaults=true)");
#else
    struct err err = {0};
    AUTO_CLOSE int dir_fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)sys_fail_at(0);
    CHECK_OK(replace_and_read(dir_fd, &err));
    int64_t calls = sys_fail_at(0);
    CHECK(calls > 8);
    int fds = test_open_fds(), files = files_in(test_tmpdir());
    for (int64_t n = 1; n <= calls; n++) {
        err = (struct err){0};
        (void)sys_fail_at(n);
        int result = replace_and_read(dir_fd, &err);
        (void)sys_fail_at(0);
        CHECK_INT(result, -1);
        CHECK(err.msg[0] != '\0' && err.code != ERR_NONE);
        CHECK_INT(test_open_fds(), fds);
        CHECK_INT(files_in(test_tmpdir()), files);
    }
#endif
}
