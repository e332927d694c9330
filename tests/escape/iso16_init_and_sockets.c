/* init's secrets and the host's sockets. Arguments: abstract names and paths to connect to. */

#include "probe.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static void connect_to(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t len = strlen(name);
    memcpy(addr.sun_path, name, len);
    if (name[0] == '@')
        addr.sun_path[0] = '\0';
    must_fail(name,
              connect(fd, (struct sockaddr *)&addr,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
              0);
    close(fd);
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"environ", "maps",   "mem",        "fd",   "root", "cwd",
                                        "exe",     "ns/mnt", "task/1/mem", "auxv", "stack"};
    char path[64], bytes[256];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "/proc/1/%s", files[i]);
        int fd = open(path, O_RDONLY | O_NONBLOCK);
        if (fd >= 0 && read(fd, bytes, sizeof bytes) > 0)
            probe_say(path, "can be read");
        if (readlink(path, bytes, sizeof bytes) > 0)
            probe_say(path, "leads somewhere");
    }
    for (int i = 1; i < argc; i++)
        connect_to(argv[i]);
    struct sockaddr_un own = {.sun_family = AF_UNIX, .sun_path = "/tmp/own"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    must_work("own socket", bind(server, (struct sockaddr *)&own, sizeof own) == 0 &&
                                listen(server, 1) == 0 &&
                                connect(client, (struct sockaddr *)&own, sizeof own) == 0);
    return probe_end();
}
