/* ISO-09: descriptors that came along from outside, and the ways that lead out through one. The
 * argument is the text of a host file: probe_leaked_fds NEEDLE. */

#include "finding.h"

#include <dirent.h>
#include <sys/stat.h>

static bool holds_needle(int dir, const char *name, const char *needle)
{
    static char text[65536];
    int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    (void)close(fd);
    return n > 0 && strstr(text, needle) != NULL;
}

static void try_descriptor(int fd, const char *needle)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    char link[64], target[512] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, target, sizeof target - 1);
    int up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    say("leaked", "%d %s up=%s", fd, target, up >= 0 ? "ok" : errno_name(errno));
    if (up >= 0 && holds_needle(up, "hostfile", needle))
        say("seen", "through descriptor %d", fd);
    if (holds_needle(fd, "hostfile", needle))
        say("seen", "in descriptor %d", fd);
    (void)close(up);
}

int main(int argc, char **argv)
{
    const char *needle = argc > 1 ? argv[1] : "no-needle";
    for (int fd = 3; fd < 1024; fd++)
        try_descriptor(fd, needle);
    char cwd[4096] = "";
    say("cwd", "%s", getcwd(cwd, sizeof cwd) != NULL ? cwd : errno_name(errno));
    /* Sixty-four levels up is the root, wherever one starts. */
    char up[256] = "";
    for (int i = 0; i < 64; i++)
        (void)strcat(up, "../");
    struct stat root = {0}, top = {0};
    (void)stat("/", &root), (void)stat(up, &top);
    say("up_is_root", "%d", root.st_ino == top.st_ino && root.st_dev == top.st_dev);
    static const char *const ways[] = {"/proc/1/root/", "/proc/self/root/", "/proc/1/cwd/",
                                       "/proc/self/cwd/"};
    for (size_t i = 0; argc > 2 && i < sizeof ways / sizeof *ways; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s%s", ways[i], argv[2]);
        if (holds_needle(AT_FDCWD, path, needle))
            say("seen", "%s", path);
        (void)snprintf(path, sizeof path, "%s../../../../../../..%s", ways[i], argv[2]);
        if (holds_needle(AT_FDCWD, path, needle))
            say("seen", "%s", path);
    }
    int null = open("/dev/null", O_RDONLY);
    say("control.first_free_fd", "%d", null);
    say("done", "1");
    return 0;
}
