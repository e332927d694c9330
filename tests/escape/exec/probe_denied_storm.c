/* RES-05: make COUNT calls that the filter refuses, and as many connections that nobody may make:
 * probe_denied_storm COUNT. A host that logs each of them is slowed down. */

#include "finding.h"

#include <netinet/in.h>
#include <sys/socket.h>

static long refused_calls(long count)
{
    long refused = 0;
    for (long i = 0; i < count; i++)
        refused += syscall(SYS_mount, P("none"), P("/tmp"), P("tmpfs"), 0, 0) < 0 && errno == EPERM;
    return refused;
}

static long refused_connections(long count)
{
    struct sockaddr_in public = {.sin_family = AF_INET,
                                 .sin_port = htons(443),
                                 .sin_addr.s_addr = htonl(0xc6336401)}; /* 198.51.100.1 */
    long refused = 0;
    for (long i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        refused += connect(fd, (struct sockaddr *)&public, sizeof public) < 0;
        (void)close(fd);
    }
    return refused;
}

int main(int argc, char **argv)
{
    long count = number(argc > 1 ? argv[1] : NULL, 1000);
    say("calls", "%ld", refused_calls(count));
    say("connections", "%ld", refused_connections(count));
    ATTEMPT("control.getpid", SYS_getpid);
    say("done", "1");
    return 0;
}
