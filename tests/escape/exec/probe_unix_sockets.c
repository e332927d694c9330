/* ISO-16: connect to Unix sockets of the host: probe_unix_sockets NAME..., "@x" being abstract. */

#include "finding.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static long try_connect(const char *name, int type)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, name, len);
    if (name[0] == '@')
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, type, 0);
    long rc = fd < 0 ? -1
                     : connect(fd, (struct sockaddr *)&to,
                               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    int e = errno;
    (void)close(fd);
    errno = e;
    return rc;
}

static void own_control(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0own"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + 4;
    (void)bind(fd, (struct sockaddr *)&at, len);
    (void)listen(fd, 1);
    say_result("control.own_abstract", try_connect("@own", SOCK_STREAM));
}

int main(int argc, char **argv)
{
    int connected = 0;
    for (int i = 1; i < argc; i++) {
        static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if (try_connect(argv[i], types[t]) == 0) {
                say("reached", "%s", argv[i]);
                connected++;
            }
    }
    say("connected", "%d", connected);
    own_control();
    say("done", "1");
    return 0;
}
