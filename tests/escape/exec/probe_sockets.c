/* ISO-07: every socket family with every type, every netlink protocol, flags and high bits that a
 * careless comparison would miss. */

#include "finding.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void try_socket(const char *kind, long family, long type, long protocol, const char *name)
{
    char full[64];
    (void)snprintf(full, sizeof full, "%s.%s", kind, name);
    long fd = syscall(SYS_socket, family, type, protocol);
    say_result(full, fd);
    if (fd >= 0)
        (void)close((int)fd);
}

static void families(void)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"stream", 1}, {"dgram", 2},     {"raw", 3},
                 {"rdm", 4},    {"seqpacket", 5}, {"packet", 10}};
    char name[32];
    for (int family = 0; family <= 46; family++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            (void)snprintf(name, sizeof name, "%d.%s", family, types[i].name);
            try_socket("socket", family, types[i].type, 0, name);
        }
    for (int family = 0; family <= 46; family++) {
        int pair[2];
        (void)snprintf(name, sizeof name, "pair.%d", family);
        long rc = syscall(SYS_socketpair, family, 1, 0, pair);
        say_result(name, rc);
        if (rc == 0)
            (void)close(pair[0]), (void)close(pair[1]);
    }
}

static void protocols(void)
{
    char name[32];
    for (int protocol = 0; protocol <= 22; protocol++) {
        (void)snprintf(name, sizeof name, "%d", protocol);
        try_socket("netlink", 16, 3 | 02000000, protocol, name);
    }
}

static void disguises(void)
{
    /* The kernel reads ints: the high halves are noise to it and must be noise to the filter. */
    try_socket("high", 38 | 1L << 40, 5, 0, "alg");
    try_socket("high", 17 | 1L << 40, 3, 0, "packet");
    try_socket("high", 40 | 1L << 40, 1, 0, "vsock");
    try_socket("high", 2, 3 | 1L << 40, 1, "inet_raw");
    try_socket("high", 16, 3, 9 | 1L << 40, "netlink_audit");
    try_socket("flags", 2, 3 | 02000000 | 04000, 255, "inet_raw");
    try_socket("flags", 10, 3 | 02000000 | 04000, 58, "inet6_raw");
    try_socket("flags", 2, 2, 1, "ping");
    try_socket("flags", 2, 1, 262, "mptcp");
    try_socket("flags", 2, 1, 132, "sctp");
    try_socket("flags", 2, 2, 136, "udplite");
}

/* Which interfaces there are: by index, since names need no netlink. */
static void interfaces(void)
{
    char names[512] = "", name[IF_NAMESIZE];
    for (unsigned i = 1; i < 256; i++)
        if (if_indextoname(i, name) != NULL) {
            (void)strncat(names, names[0] ? "," : "", sizeof names - strlen(names) - 1);
            (void)strncat(names, name, sizeof names - strlen(names) - 1);
        }
    say("interfaces", "%s", names);
}

static void try_connect(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strchr(address, ':');
    unsigned a = 0, b = 0, c = 0, d = 0;
    (void)sscanf(address, "%u.%u.%u.%u", &a, &b, &c, &d);
    to.sin_addr.s_addr = htonl(a << 24 | b << 16 | c << 8 | d);
    to.sin_port = htons((uint16_t)number(colon != NULL ? colon + 1 : NULL, 80));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char name[64];
    (void)snprintf(name, sizeof name, "connect.%s", address);
    (void)alarm(5);
    say_result(name, fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to));
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    (void)snprintf(name, sizeof name, "sendto.%s", address);
    say_result(name, sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
    (void)close(fd), (void)close(udp);
}

static void loopback_control(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    int rc = bind(server, (struct sockaddr *)&at, sizeof at);
    if (rc == 0)
        rc = listen(server, 1);
    if (rc == 0)
        rc = getsockname(server, (struct sockaddr *)&at, &len);
    if (rc == 0)
        rc = connect(client, (struct sockaddr *)&at, sizeof at);
    say_result("control.loopback", rc);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        try_connect(argv[i]);
    families();
    protocols();
    disguises();
    interfaces();
    loopback_control();
    say("done", "1");
    return 0;
}
