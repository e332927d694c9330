#include "jail/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

enum { BACKLOG = 128 };

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
        return err_wrap(err, "return home");
    }
    return fd < 0 ? -1 : fd_take(&fd);
}

int netns_traces(struct buf *out, struct err *err)
{
    static const char *const files[] = {
        "/proc/thread-self/net/dev", "/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat",
        "/proc/thread-self/net/snmp6", "/proc/thread-self/net/sockstat"};
    buf_clear(out);
    for (size_t i = 0; i < countof(files); i++) {
        AUTO_CLOSE int fd = SYS(open(files[i], O_RDONLY | O_CLOEXEC));
        if (fd < 0 && errno == ENOENT)
            continue; /* a kernel without IPv6 */
        if (fd < 0)
            return err_sys(err, errno, "open '%s'", files[i]);
        /* The first line counts sockets of the whole machine. */
        size_t from = out->len;
        if (buf_read_all(out, fd, err) < 0)
            return -1;
        if (i == countof(files) - 1) {
            struct str text = str_slice(buf_str(out), from, out->len);
            size_t line = str_find_char(text, '\n');
            memset(out->ptr + from, ' ', MIN(line, text.len));
        }
    }
    return 0;
}

static int listen_here(uint16_t port, struct err *err)
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

int netns_listen(int fd, int home_fd, uint16_t port, struct err *err)
{
    if (netns_enter(fd, err) < 0)
        return -1;
    AUTO_CLOSE int listener = listen_here(port, err);
    struct err back = {0};
    if (netns_enter(home_fd, &back) < 0) {
        *err = back;
        return err_wrap(err, "return home");
    }
    return listener < 0 ? err_wrap(err, "gateway socket") : fd_take(&listener);
}
