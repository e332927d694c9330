/* The network ends at loopback. Argument: a port on which somebody listens on the host. */

#include "probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static int dial(const char *address, int port, int type)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, address, &to.sin_addr);
    int fd = socket(AF_INET, type, 0);
    int done = connect(fd, (struct sockaddr *)&to, sizeof to);
    if (done == 0 && type == SOCK_DGRAM)
        done = (int)send(fd, "x", 1, 0);
    return done;
}

int main(int argc, char **argv)
{
    int port = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 80;
    must_fail("public", dial("1.1.1.1", 53, SOCK_STREAM), ENETUNREACH);
    must_fail("public datagram", dial("8.8.8.8", 53, SOCK_DGRAM), ENETUNREACH);
    must_fail("private", dial("10.0.0.1", 80, SOCK_STREAM), ENETUNREACH);
    must_fail("metadata", dial("169.254.169.254", 80, SOCK_STREAM), ENETUNREACH);
    must_fail("the host's loopback", dial("127.0.0.1", port, SOCK_STREAM), ECONNREFUSED);
    struct ifaddrs *list = NULL;
    must_work("getifaddrs", getifaddrs(&list) == 0);
    for (struct ifaddrs *at = list; at != NULL; at = at->ifa_next)
        if (strcmp(at->ifa_name, "lo") != 0)
            probe_say("interface", at->ifa_name);
    struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_port = htons(8080), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, 0);
    must_work("own loopback", bind(server, (struct sockaddr *)&own, sizeof own) == 0 &&
                                  listen(server, 1) == 0 &&
                                  dial("127.0.0.1", 8080, SOCK_STREAM) == 0);
    return probe_end();
}
