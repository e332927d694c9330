/* Every socket family, type and netlink protocol: only the plain ones open. */

#include "probe.h"

#include <sys/socket.h>

static bool may(int family, int type, int protocol)
{
    if (family == AF_UNIX)
        return (type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET) &&
               protocol == 0;
    if (family == AF_INET || family == AF_INET6)
        return (type == SOCK_STREAM || type == SOCK_DGRAM) && protocol == 0;
    return family == AF_NETLINK && (type == SOCK_RAW || type == SOCK_DGRAM) && protocol == 0;
}

static void attempt(int family, int type, int protocol)
{
    char what[64];
    int fd = socket(family, type, protocol);
    snprintf(what, sizeof what, "socket(%d, %d, %d)", family, type, protocol);
    if (may(family, type, protocol))
        must_work(what, fd >= 0 || errno == EAFNOSUPPORT /* a kernel without IPv6 */);
    else
        must_fail(what, fd, EAFNOSUPPORT);
    if (fd >= 0)
        close(fd);
}

int main(void)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    for (int family = 0; family <= 45; family++)
        for (int i = 0; i < 4; i++)
            attempt(family, types[i], 0);
    for (int protocol = 1; protocol <= 22; protocol++)
        attempt(AF_NETLINK, SOCK_RAW, protocol);
    attempt(AF_INET, SOCK_RAW, 1);
    attempt(AF_INET, SOCK_DGRAM, 1);
    attempt(AF_INET, SOCK_STREAM, 262);
    attempt(AF_INET, SOCK_STREAM, 132);
    return probe_end();
}
