/* What a process may do where: a matrix of places and deeds, each answered by the kernel. It shows
 * the combined effect of mounts, ownership and Landlock, so that the loss of one is seen. */

#include "finding.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void cell(const char *place, const char *deed, long rc)
{
    char name[128];
    int e = errno;
    (void)snprintf(name, sizeof name, "%s.%s", deed, place);
    errno = e;
    say_result(name, rc);
}

static long make_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    long rc = bind(fd, (struct sockaddr *)&at, sizeof at);
    int e = errno;
    (void)close(fd);
    errno = e;
    return rc;
}

static void try_place(const char *place)
{
    char path[256], other[256];
    (void)snprintf(path, sizeof path, "%s/.probe", strcmp(place, "/") == 0 ? "" : place);
    (void)snprintf(other, sizeof other, "%s/.probe2", strcmp(place, "/") == 0 ? "" : place);
    cell(place, "list", open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    cell(place, "create", open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
    cell(place, "rename", rename(path, other));
    cell(place, "unlink", unlink(other));
    cell(place, "mkdir", mkdir(path, 0755));
    cell(place, "rmdir", rmdir(path));
    cell(place, "symlink", symlink("/", path));
    (void)unlink(path);
    cell(place, "fifo", mkfifo(path, 0600));
    (void)unlink(path);
    cell(place, "socket", make_socket(path));
    (void)unlink(path);
    struct stat st = {0};
    cell(place, "chmod", stat(place, &st) < 0 ? -1 : chmod(place, st.st_mode & 07777));
}

static void try_file(const char *path)
{
    cell(path, "read", open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    cell(path, "write", open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    /* To the length it has: should it be the host's after all, nothing is lost. */
    struct stat st = {0};
    cell(path, "truncate", stat(path, &st) < 0 ? -1 : truncate(path, st.st_size));
    cell(path, "link", link(path, "/tmp/.probe-link"));
    (void)unlink("/tmp/.probe-link");
}

int main(void)
{
    static const char *const places[] = {
        "/",    "/bin", "/dev",       "/dev/pts", "/dev/shm", "/etc",        "/home",
        "/lib", "/mnt", "/opt",       "/proc",    "/root",    "/run",        "/srv",
        "/tmp", "/usr", "/usr/local", "/var",     "/var/tmp", "/opt/probes", "/workspace",
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        try_place(places[i]);
    static const char *const files[] = {"/etc/passwd",        "/etc/hosts",  "/etc/resolv.conf",
                                        "/usr/bin/env",       "/proc/stat",  "/proc/self/comm",
                                        "/dev/null",          "/dev/tty",    "/etc/shadow",
                                        "/opt/probes/marker", "/proc/1/comm"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        try_file(files[i]);
    say("done", "1");
    return 0;
}
