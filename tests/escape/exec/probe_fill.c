/* RES-03, RES-04: fill a directory: probe_fill bytes|files|fallocate|sparse|xattrs DIR MOST, MOST
 * being MiB or a number of files. */

#include "finding.h"

#include <sys/stat.h>
#include <sys/xattr.h>

static char path[4096];

static long fill_bytes(const char *dir, long most)
{
    static char bytes[1 << 20];
    memset(bytes, 'x', sizeof bytes);
    (void)snprintf(path, sizeof path, "%s/big", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    for (long done = 0; done < most; done++)
        if (write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes)
            return done;
    return most;
}

static long fill_files(const char *dir, long most)
{
    (void)snprintf(path, sizeof path, "%s/many", dir);
    (void)mkdir(path, 0755);
    for (long done = 0; done < most; done++) {
        (void)snprintf(path, sizeof path, "%s/many/%ld", dir, done);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0)
            return done;
        (void)close(fd);
    }
    return most;
}

static long fill_fallocate(const char *dir, long most)
{
    (void)snprintf(path, sizeof path, "%s/reserved", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return fd >= 0 && fallocate(fd, 0, 0, (off_t)most << 20) == 0 ? most : 0;
}

/* A hole costs nothing until it is touched, a page in every MiB. */
static long fill_sparse(const char *dir, long most)
{
    (void)snprintf(path, sizeof path, "%s/sparse", dir);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)1 << 40) < 0)
        return -1;
    for (long done = 0; done < most; done++)
        for (int page = 0; page < 256; page++)
            if (pwrite(fd, "x", 1, ((off_t)done << 20) + page * 4096L) != 1)
                return done;
    return most;
}

static long fill_xattrs(const char *dir, long most)
{
    static char value[4096];
    for (long done = 0; done < most; done++) {
        (void)snprintf(path, sizeof path, "%s/x%ld", dir, done);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0 || fsetxattr(fd, "user.fill", value, sizeof value - 512, 0) < 0)
            return done;
        (void)close(fd);
    }
    return most;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        say("usage", "bytes|files|fallocate|sparse|xattrs DIR MOST");
        return 2;
    }
    long most = number(argv[3], 0);
    errno = 0;
    long done = strcmp(argv[1], "files") == 0       ? fill_files(argv[2], most)
                : strcmp(argv[1], "fallocate") == 0 ? fill_fallocate(argv[2], most)
                : strcmp(argv[1], "sparse") == 0    ? fill_sparse(argv[2], most)
                : strcmp(argv[1], "xattrs") == 0    ? fill_xattrs(argv[2], most)
                                                    : fill_bytes(argv[2], most);
    int e = errno;
    say("filled", "%ld", done);
    say("stopped_by", "%s", done == most ? "most" : errno_name(e));
    say("done", "1");
    return 0;
}
