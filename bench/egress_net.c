#include "egress_net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "egress/keys/authority.h"
#include "egress/keys/secrets.h"
#include "egress/keys/tls_end.h"

enum { PIECE = 256 << 10, HELD_MAX = 4096 };
static const int64_t big = 1 << 30;

static struct authority *of_servers, *of_sandbox;
static struct tls_trust *trusts[2]; /* by enum net_root */
static struct secrets *secrets;
static char roots[] = "/tmp/sandglass-bench-ca-XXXXXX";
static struct host here;
static struct err err;
static char piece[PIECE];

static void check(bool good)
{
    if (good)
        return;
    (void)fprintf(stderr, "bench: %s (%s)\n", err.msg, strerror(errno));
    exit(1);
}

void net_begin(void)
{
    AUTO_BUF struct buf servers = {0}, sandbox = {0};
    check(host_parse(STR("127.0.0.1"), &here, &err) == 0);
    of_servers = authority_new(&here, 1);
    of_sandbox = authority_new(&here, 1);
    check(authority_put_cert(of_servers, &servers, &err) == 0 &&
          authority_put_cert(of_sandbox, &sandbox, &err) == 0);
    check(tls_trust_new(buf_str(&servers), &trusts[NET_ROOT_OF_SERVERS], &err) == 0 &&
          tls_trust_new(buf_str(&sandbox), &trusts[NET_ROOT_OF_SANDBOX], &err) == 0);
    AUTO_CLOSE int fd = mkstemp(roots);
    check(fd >= 0 && fd_write_all(fd, buf_str(&servers), &err) == 0);
}

void net_end(void)
{
    (void)unlink(roots);
    (void)secrets_free(secrets);
    (void)authority_free(of_servers);
    (void)authority_free(of_sandbox);
    for (int i = 0; i < 2; i++)
        (void)tls_trust_free(trusts[i]);
}

const struct secrets *net_secrets(int port)
{
    struct secret_rule rule = {0};
    char place[32];
    (void)snprintf(place, sizeof place, "127.0.0.1:%d", port);
    secrets = secrets_new();
    check(secret_rule_set_name(&rule, STR("KEY"), &err) == 0 &&
          secret_rule_add_place(&rule, str_of(place), &err) == 0 &&
          secrets_add(secrets, &rule, STR("a-key-of-some-length"), &err) == 0);
    return secrets;
}

struct authority *net_sandbox_authority(void)
{
    return of_sandbox;
}

const char *net_roots_file(void)
{
    return roots;
}

/* Plain sockets. */

int net_dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

void net_send(int fd, struct str bytes)
{
    check(send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL) == (ssize_t)bytes.len);
}

void net_expect(int fd, const char *text)
{
    AUTO_BUF struct buf got = {0};
    while (str_find(buf_str(&got), str_of(text)) >= got.len) {
        ssize_t count = recv(fd, piece, sizeof piece, 0);
        if (count <= 0)
            (void)fprintf(stderr, "bench: no '%s' in: %s\n", text, buf_cstr(&got));
        check(count > 0);
        buf_put(&got, str_n(piece, (size_t)count));
    }
}

int64_t net_drain(int fd)
{
    int64_t total = 0;
    for (ssize_t count; (count = recv(fd, piece, sizeof piece, 0)) > 0;)
        total += count;
    return total;
}

/* TLS, carried by hand. */

static bool carry_out(struct tls_end *end, int fd)
{
    AUTO_BUF struct buf out = {0};
    while (tls_end_drain(end, &out, PIECE) > 0)
        ;
    return out.len == 0 || send(fd, out.ptr, out.len, MSG_NOSIGNAL) == (ssize_t)out.len;
}

/* Until `text` has come, or the handshake is over for NULL. False when the peer has gone. */
static bool carry(struct tls_end *end, int fd, const char *text)
{
    AUTO_BUF struct buf plain = {0};
    for (;;) {
        if (!carry_out(end, fd))
            return false;
        if (text == NULL ? tls_end_is_ready(end)
                         : str_find(buf_str(&plain), str_of(text)) < plain.len)
            return true;
        ssize_t count = recv(fd, piece, sizeof piece, 0);
        if (count <= 0 || tls_end_feed(end, str_n(piece, (size_t)count), &err) < 0 ||
            tls_end_read(end, &plain, PIECE, &err) < 0)
            return false;
    }
}

void net_tls_ask(int fd, int port, enum net_root root)
{
    AUTO_TLS_END struct tls_end *end = NULL;
    char text[160];
    (void)snprintf(text, sizeof text,
                   "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n", port);
    check(tls_client_new(trusts[root], &here, &end, &err) == 0);
    check(carry(end, fd, NULL));
    check(tls_end_write(end, str_of(text), &err) == 0);
    check(carry(end, fd, "ok"));
    (void)close(fd);
}

/* Servers. */

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

static void serve_tls(int fd)
{
    AUTO_TLS_END struct tls_end *end = NULL;
    if (tls_server_new(trusts[NET_ROOT_OF_SERVERS], of_servers, &here, &end, &err) == 0 &&
        carry(end, fd, "\r\n\r\n") && tls_end_write(end, str_of(answer), &err) == 0)
        tls_end_close(end);
    if (end != NULL)
        (void)carry_out(end, fd);
}

static void send_big(int fd)
{
    for (int64_t sent = 0; sent < big;) {
        size_t want = (size_t)MIN((int64_t)sizeof piece, big - sent);
        ssize_t count = send(fd, piece, want, MSG_NOSIGNAL);
        if (count <= 0)
            return;
        sent += count;
    }
}

/* True when the connection stays open. */
static bool serve_plain(int fd)
{
    AUTO_BUF struct buf got = {0};
    char bytes[4096];
    while (str_find(buf_str(&got), STR("\n")) >= got.len ||
           (got.ptr[0] != '\x01' && str_find(buf_str(&got), STR("\r\n\r\n")) >= got.len)) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count <= 0)
            return false;
        buf_put(&got, str_n(bytes, (size_t)count));
    }
    if (str_starts(buf_str(&got), STR("\x01 hold"))) {
        net_send(fd, STR("held"));
        return true;
    }
    if (str_starts(buf_str(&got), STR("\x01 big"))) {
        send_big(fd);
    } else if (str_starts(buf_str(&got), STR("GET /big"))) {
        net_send(fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"));
        send_big(fd);
    } else {
        net_send(fd, str_of(answer));
    }
    return false;
}

/* Tunnels that are open and say nothing yet must not hold up others. */
static void NORETURN serve_forever(int listener, bool is_tls)
{
    static struct pollfd waits[HELD_MAX + 1];
    nfds_t count = 1;
    waits[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (;;) {
        if (poll(waits, count, -1) < 0)
            continue;
        for (nfds_t i = count; i-- > 1;) {
            if (waits[i].revents == 0)
                continue;
            bool stays = false;
            if (is_tls)
                serve_tls(waits[i].fd);
            else
                stays = serve_plain(waits[i].fd);
            if (!stays) {
                (void)close(waits[i].fd);
                waits[i] = waits[--count];
            }
        }
        int fd = waits[0].revents != 0 ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0 && count <= HELD_MAX)
            waits[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

pid_t net_serve(int *ret_port, bool is_tls)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
          listen(listener, HELD_MAX) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    *ret_port = ntohs(at.sin_port);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        serve_forever(listener, is_tls);
    }
    return pid;
}
