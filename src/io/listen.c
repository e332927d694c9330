#include "io/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

#define ADVICE "write HOST:PORT, [IPV6]:PORT or unix:/PATH"

static int parse_unix(struct str path, struct addr *ret_addr, struct err *err)
{
    struct addr addr = {.len = sizeof addr.sa.un};
    addr.sa.un.sun_family = AF_UNIX;
    if (path.len == 0 || path.ptr[0] != '/')
        return err_set(err, ERR_INVALID, "address 'unix:%.*s': the path must begin with '/'",
                       STR_ARG(path));
    if (str_to_cstr(path, addr.sa.un.sun_path, sizeof addr.sa.un.sun_path, err) < 0)
        return err_set(
            err, ERR_INVALID,
            "address 'unix:%.*s': a socket's path must have at most %zu bytes and no NUL",
            STR_ARG(str_slice(path, 0, 120)), sizeof addr.sa.un.sun_path - 1);
    *ret_addr = addr;
    return 0;
}

static bool parse_host(struct str host, bool bracketed, int port, struct addr *ret_addr)
{
    char text[INET6_ADDRSTRLEN];
    struct err ignored;
    if (str_eq(host, STR("localhost")))
        host = STR("127.0.0.1");
    if (str_to_cstr(host, text, sizeof text, &ignored) < 0)
        return false;
    struct addr addr = {0};
    if (bracketed) {
        addr.len = sizeof addr.sa.v6;
        addr.sa.v6.sin6_family = AF_INET6;
        addr.sa.v6.sin6_port = htons((uint16_t)port);
        if (inet_pton(AF_INET6, text, &addr.sa.v6.sin6_addr) != 1)
            return false;
    } else {
        addr.len = sizeof addr.sa.v4;
        addr.sa.v4.sin_family = AF_INET;
        addr.sa.v4.sin_port = htons((uint16_t)port);
        if (inet_pton(AF_INET, text, &addr.sa.v4.sin_addr) != 1)
            return false;
    }
    *ret_addr = addr;
    return true;
}

int addr_parse(struct str text, struct addr *ret_addr, struct err *err)
{
    if (str_starts(text, STR("unix:")))
        return parse_unix(str_slice(text, 5, text.len), ret_addr, err);
    size_t colon = text.len;
    while (colon > 0 && text.ptr[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return err_set(err, ERR_INVALID, "address '%.*s' has no port: " ADVICE, STR_ARG(text));
    struct str host = str_slice(text, 0, colon - 1);
    int64_t port;
    if (!str_to_i64(str_slice(text, colon, text.len), 0, 65535, &port))
        return err_set(err, ERR_INVALID, "address '%.*s': the port must be 0 to 65535",
                       STR_ARG(text));
    bool bracketed = str_starts(host, STR("[")) && str_ends(host, STR("]")) && host.len > 2;
    if (bracketed)
        host = str_slice(host, 1, host.len - 1);
    if (!parse_host(host, bracketed, (int)port, ret_addr))
        return err_set(err, ERR_INVALID, "address '%.*s': '%.*s' is not an IP address: " ADVICE,
                       STR_ARG(text), STR_ARG(host));
    return 0;
}

void addr_format(const struct addr *addr, char out[ADDR_TEXT_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "";
    switch (addr->sa.any.sa_family) {
    case AF_INET:
        (void)inet_ntop(AF_INET, &addr->sa.v4.sin_addr, host, sizeof host);
        (void)snprintf(out, ADDR_TEXT_SIZE, "%s:%d", host, addr_port(addr));
        break;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &addr->sa.v6.sin6_addr, host, sizeof host);
        (void)snprintf(out, ADDR_TEXT_SIZE, "[%s]:%d", host, addr_port(addr));
        break;
    default:
        (void)snprintf(out, ADDR_TEXT_SIZE, "unix:%s", addr->sa.un.sun_path);
    }
}

bool addr_is_unix(const struct addr *addr)
{
    return addr->sa.any.sa_family == AF_UNIX;
}

bool addr_is_loopback(const struct addr *addr)
{
    if (addr->sa.any.sa_family == AF_INET)
        return (ntohl(addr->sa.v4.sin_addr.s_addr) >> 24) == 127;
    if (addr->sa.any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&addr->sa.v6.sin6_addr);
    return addr_is_unix(addr);
}

struct addr addr_nearest(const struct addr *addr)
{
    struct addr near = *addr;
    int family = addr->sa.any.sa_family;
    if (family == AF_INET && addr->sa.v4.sin_addr.s_addr == htonl(INADDR_ANY))
        near.sa.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&addr->sa.v6.sin6_addr))
        near.sa.v6.sin6_addr = in6addr_loopback;
    return near;
}

int addr_port(const struct addr *addr)
{
    if (addr->sa.any.sa_family == AF_INET)
        return ntohs(addr->sa.v4.sin_port);
    return addr->sa.any.sa_family == AF_INET6 ? ntohs(addr->sa.v6.sin6_port) : 0;
}

/* A socket file outlives its process. It is removed only if no process accepts connections on it.
 */
static int clear_stale(const struct addr *addr, struct err *err)
{
    const char *path = addr->sa.un.sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0; /* the bind says what is wrong, if anything is */
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_CONFLICT,
                       "'%s' exists and is not a socket; remove it or choose another path", path);
    AUTO_CLOSE int probe = SYS(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (probe < 0)
        return err_sys(err, errno, "socket");
    if (connect(probe, &addr->sa.any, addr->len) == 0 || errno == EAGAIN)
        return err_set(err, ERR_BUSY,
                       "'%s' is in use by a running program; stop it or choose "
                       "another path",
                       path);
    if (errno == ECONNREFUSED && SYS(unlink(path)) < 0)
        return err_sys(err, errno, "remove the old socket '%s'", path);
    return 0;
}

static int bind_failed(const struct addr *addr, int code, struct err *err)
{
    char text[ADDR_TEXT_SIZE];
    addr_format(addr, text);
    int port = addr_port(addr);
    if (code == EADDRINUSE && addr_is_unix(addr))
        return err_set(err, ERR_BUSY, "'%s' already exists; remove it or choose another path",
                       addr->sa.un.sun_path);
    if (code == EADDRINUSE)
        return err_set(err, ERR_BUSY,
                       "port %d is in use (%s): stop the program that holds it "
                       "(find it with 'ss -ltnp sport = :%d') or choose another port",
                       port, text, port);
    if (code == EADDRNOTAVAIL)
        return err_set(err, ERR_INVALID,
                       "this machine has no address %s: choose one that "
                       "'ip address' shows",
                       text);
    if (code == EACCES && port > 0 && port < 1024)
        return err_set(err, ERR_FORBIDDEN, "port %d needs root: choose port 1024 or higher", port);
    return err_sys(err, code, "listen on %s", text);
}

static int bind_and_listen(int fd, struct addr *addr, int backlog)
{
    if (SYS(bind(fd, &addr->sa.any, addr->len)) < 0 || SYS(listen(fd, backlog)) < 0)
        return -1;
    if (addr_is_unix(addr))
        return SYS(chmod(addr->sa.un.sun_path, 0600));
    return SYS(getsockname(fd, &addr->sa.any, &addr->len));
}

int listen_open(struct addr *addr, int backlog, struct err *err)
{
    if (addr_is_unix(addr) && clear_stale(addr, err) < 0)
        return -1;
    AUTO_CLOSE int fd =
        SYS(socket(addr->sa.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return err_sys(err, errno, "socket");
    int on = 1;
    /* A restart must not wait for the old connections' last minute. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (addr->sa.any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    struct addr bound = *addr;
    /* The file must never be connectable by others, not for the moment before chmod either. */
    mode_t before = umask(0177);
    int done = bind_and_listen(fd, &bound, backlog);
    int code = errno;
    (void)umask(before);
    if (done < 0)
        return bind_failed(addr, code, err);
    *addr = bound;
    return fd_take(&fd);
}
