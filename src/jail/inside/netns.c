#include "jail/inside/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

enum { BACKLOG = 1024, LOOPBACK_INDEX = 1 };

int netns_open_own(struct err *err)
{
    int fd = SYS(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open the network namespace");
    return fd;
}

int netns_enter(int fd, struct err *err)
{
    if (SYS(setns(fd, CLONE_NEWNET)) < 0)
        return err_sys(err, errno, "enter the network namespace");
    return 0;
}

static int loopback_up(struct err *err)
{
    AUTO_CLOSE int fd = SYS(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return err_sys(err, errno, "socket");
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (SYS(ioctl(fd, SIOCSIFFLAGS, &request)) < 0)
        return err_sys(err, errno, "bring loopback up");
    return 0;
}

static int make_here(struct err *err)
{
    if (SYS(unshare(CLONE_NEWNET)) < 0)
        return err_sys(err, errno, "make a network namespace");
    if (loopback_up(err) < 0)
        return -1;
    return netns_open_own(err);
}

int netns_make(int home_fd, struct err *err)
{
    AUTO_CLOSE int fd = make_here(err);
    struct err back = {0};
    if (netns_enter(home_fd, &back) < 0) {
        *err = back;
        return err_wrap(err, "return to the first network namespace");
    }
    return fd < 0 ? -1 : fd_take(&fd);
}

/* Routes. */

struct route {
    struct nlmsghdr head;
    struct rtmsg body;
    struct rtattr oif;
    uint32_t index;
};

/* "local 0.0.0.0/0 dev lo" or "local ::/0 dev lo". */
static int add_route(int netlink, unsigned char family, struct err *err)
{
    struct route route = {
        .head = {.nlmsg_len = sizeof route,
                 .nlmsg_type = RTM_NEWROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
        .body = {.rtm_family = family,
                 .rtm_table = RT_TABLE_LOCAL,
                 .rtm_protocol = RTPROT_BOOT,
                 .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                 .rtm_type = RTN_LOCAL},
        .oif = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_OIF},
        .index = LOOPBACK_INDEX,
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr body;
        char rest[256];
    } answer = {0};
    if (SYS(send(netlink, &route, sizeof route, 0)) < 0 ||
        SYS(recv(netlink, &answer, sizeof answer, 0)) < (ssize_t)NLMSG_LENGTH(sizeof(int)))
        return err_sys(err, errno, "send a netlink request");
    if (answer.head.nlmsg_type != NLMSG_ERROR)
        return err_set(err, ERR_INTERNAL, "netlink answered with message %u",
                       answer.head.nlmsg_type);
    /* There already: an earlier attempt got no further than this. */
    if (answer.body.error != 0 && answer.body.error != -EEXIST)
        return err_sys(err, -answer.body.error, "make every address local");
    return 0;
}

static int add_routes(struct err *err)
{
    AUTO_CLOSE int netlink = SYS(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct err ignored;
    if (netlink < 0)
        return err_sys(err, errno, "open netlink");
    /* A host without IPv6 has no such addresses to capture: connecting to one fails by itself. */
    (void)add_route(netlink, AF_INET6, &ignored);
    return add_route(netlink, AF_INET, err);
}

/* Sockets. */

static int bind_any(int fd, int family, uint16_t port, struct err *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int off = 0;
    if (family == AF_INET6 && SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off)) < 0)
        return err_sys(err, errno, "make a socket of both families");
    int done = family == AF_INET6 ? SYS(bind(fd, (struct sockaddr *)&v6, sizeof v6))
                                  : SYS(bind(fd, (struct sockaddr *)&v4, sizeof v4));
    return done == 0 ? 0 : err_sys(err, errno, "bind port %u", port);
}

/* On every address of both families; of one where the host has no IPv6. */
static int open_any(int type, uint16_t port, struct err *err)
{
    int family = AF_INET6, kind = type | SOCK_CLOEXEC | SOCK_NONBLOCK;
    AUTO_CLOSE int fd = SYS(socket(AF_INET6, kind, 0));
    if (fd < 0 && errno == EAFNOSUPPORT) {
        family = AF_INET;
        fd = SYS(socket(AF_INET, kind, 0));
    }
    if (fd < 0)
        return err_sys(err, errno, "socket");
    if (bind_any(fd, family, port, err) < 0)
        return -1;
    if (type == SOCK_STREAM && SYS(listen(fd, BACKLOG)) < 0)
        return err_sys(err, errno, "listen");
    return fd_take(&fd);
}

int netns_open_proxy(uint16_t port, struct err *err)
{
    AUTO_CLOSE int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return err_sys(err, errno, "socket");
    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (SYS(bind(fd, (struct sockaddr *)&addr, sizeof addr)) < 0)
        return err_sys(err, errno, "bind port %u", port);
    if (SYS(listen(fd, BACKLOG)) < 0)
        return err_sys(err, errno, "listen");
    return fd_take(&fd);
}

static int open_sockets(uint16_t proxy_port, int *proxy_fd, int sockets[JAIL_SOCKETS],
                        struct err *err)
{
    static const struct {
        int type;
        uint16_t port;
    } rows[JAIL_SOCKETS] = {
        [JAIL_SOCKET_DNS] = {SOCK_DGRAM, 53},
        [JAIL_SOCKET_DNS_TCP] = {SOCK_STREAM, 53},
        [JAIL_SOCKET_HTTP] = {SOCK_STREAM, 80},
        [JAIL_SOCKET_HTTPS] = {SOCK_STREAM, 443},
    };
    sockets[JAIL_SOCKET_PROXY] = *proxy_fd > 0 ? fd_take(proxy_fd) : -1;
    if (add_routes(err) < 0)
        return -1;
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        if (sockets[i] >= 0)
            continue;
        sockets[i] = i == JAIL_SOCKET_PROXY ? netns_open_proxy(proxy_port, err)
                                            : open_any(rows[i].type, rows[i].port, err);
        if (sockets[i] < 0)
            return -1;
    }
    return 0;
}

void netns_close_sockets(int sockets[JAIL_SOCKETS])
{
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&sockets[i]);
}

static int go_home(int home_fd, int done, struct err *err)
{
    struct err back = {0};
    if (netns_enter(home_fd, &back) == 0)
        return done;
    *err = back;
    return err_wrap(err, "return to the first network namespace");
}

int netns_gateway(int fd, int home_fd, uint16_t proxy_port, int *proxy_fd,
                  int ret_sockets[JAIL_SOCKETS], struct err *err)
{
    int sockets[JAIL_SOCKETS];
    memset(sockets, -1, sizeof sockets);
    if (netns_enter(fd, err) < 0)
        return -1;
    int done = open_sockets(proxy_port, proxy_fd, sockets, err);
    if (go_home(home_fd, done, err) < 0) {
        netns_close_sockets(sockets);
        return err_wrap(err, "gateway sockets");
    }
    memcpy(ret_sockets, sockets, sizeof sockets);
    return 0;
}

int netns_listen(int fd, int home_fd, uint16_t port, struct err *err)
{
    if (netns_enter(fd, err) < 0)
        return -1;
    AUTO_CLOSE int listener = open_any(SOCK_STREAM, port, err);
    if (go_home(home_fd, listener, err) < 0)
        return err_wrap(err, "gateway socket");
    return fd_take(&listener);
}
