#include "net.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "base/fd.h"

enum { CONNECTIONS_MAX = 256 };

struct connection {
    struct net_server *server;
    pthread_t thread;
    int fd;
};

struct net_server {
    int fd, port;
    net_serve *serve;
    void *ctx;
    SSL_CTX *tls;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    struct connection *connections[CONNECTIONS_MAX];
    int count;
    struct buf log;
};

bool net_put(int fd, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes = str_slice(bytes, (size_t)sent, bytes.len);
    }
    return true;
}

bool net_put_cstr(int fd, const char *text)
{
    return net_put(fd, str_of(text));
}

void net_answer(int fd, const char *status, const char *headers, struct str body)
{
    AUTO_BUF struct buf head = {0};
    buf_printf(&head, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
               headers, body.len);
    if (net_put(fd, buf_str(&head)))
        (void)net_put(fd, body);
}

static size_t content_length(struct str head)
{
    static const char name[] = "\r\nContent-Length: ";
    int64_t n = 0;
    size_t at = str_find(head, str_of(name));
    if (at == head.len)
        return 0;
    struct str rest = str_slice(head, at + strlen(name), head.len);
    return str_to_i64(str_slice(rest, 0, str_find_char(rest, '\r')), 0, 1 << 24, &n) ? (size_t)n
                                                                                     : 0;
}

/* Reads one request; the head's length, 0 when the peer went before. */
static size_t read_request(int fd, struct buf *bytes)
{
    size_t head = 0;
    for (;;) {
        char space[4096];
        struct str all = buf_str(bytes);
        size_t end = str_find(all, STR("\r\n\r\n"));
        if (all.len > 0 && end < all.len) {
            head = end + 4;
            if (all.len >= head + content_length(str_slice(all, 0, head)))
                return head;
        }
        ssize_t got = recv(fd, space, sizeof space, 0);
        if (got <= 0)
            return 0;
        buf_put(bytes, str_n(space, (size_t)got));
        if (bytes->ptr[0] == 0x16) /* a ClientHello, which gets plain text for an answer */
            return bytes->len;
    }
}

static void keep_log(struct net_server *server, const struct buf *bytes)
{
    (void)pthread_mutex_lock(&server->lock);
    buf_put(&server->log, buf_str(bytes));
    (void)pthread_mutex_unlock(&server->lock);
}

/* TLS is taken off by a pump, so that handlers write to a plain socket in either case. */
static void serve_tls(struct net_server *server, int fd)
{
    SSL *tls = SSL_new(server->tls);
    int pair[2];
    AUTO_BUF struct buf bytes = {0}, answer = {0};
    struct err err;
    (void)SSL_set_fd(tls, fd);
    if (SSL_accept(tls) == 1) {
        char space[16384];
        int got = SSL_read(tls, space, sizeof space);
        if (got > 0)
            buf_put(&bytes, str_n(space, (size_t)got));
        keep_log(server, &bytes);
        size_t head = str_find(buf_str(&bytes), STR("\r\n\r\n"));
        if (got > 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
            server->serve(pair[0], str_slice(buf_str(&bytes), 0, head + 4),
                          str_slice(buf_str(&bytes), head + 4, bytes.len), server->ctx);
            (void)close(pair[0]);
            (void)!buf_read_all(&answer, pair[1], &err);
            (void)close(pair[1]);
            (void)SSL_write(tls, answer.ptr, (int)answer.len);
        }
        (void)SSL_shutdown(tls);
    }
    SSL_free(tls);
}

static void *serve_connection(void *arg)
{
    struct connection *connection = arg;
    struct net_server *server = connection->server;
    AUTO_BUF struct buf bytes = {0};
    if (server->tls != NULL) {
        serve_tls(server, connection->fd);
    } else {
        size_t head = read_request(connection->fd, &bytes);
        keep_log(server, &bytes);
        if (head > 0)
            server->serve(connection->fd, str_slice(buf_str(&bytes), 0, head),
                          str_slice(buf_str(&bytes), head, bytes.len), server->ctx);
    }
    (void)shutdown(connection->fd, SHUT_RDWR);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct net_server *server = arg;
    for (int fd; (fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        struct connection *connection = mem_alloc(sizeof *connection);
        *connection = (struct connection){.server = server, .fd = fd};
        (void)pthread_mutex_lock(&server->lock);
        assert(server->count < CONNECTIONS_MAX);
        server->connections[server->count++] = connection;
        (void)pthread_create(&connection->thread, NULL, serve_connection, connection);
        (void)pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

struct net_server *net_server_start(const char *ip, int port, net_serve *serve, void *ctx)
{
    struct net_server *server = net_server_try(ip, port, serve, ctx);
    assert(server != NULL);
    return server;
}

struct net_server *net_server_try(const char *ip, int port, net_serve *serve, void *ctx)
{
    struct net_server *server = mem_alloc(sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int on = 1;
    server->serve = serve;
    server->ctx = ctx;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool good = inet_pton(AF_INET, ip, &address.sin_addr) == 1 &&
                bind(server->fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                listen(server->fd, 64) == 0 &&
                getsockname(server->fd, (struct sockaddr *)&address, &size) == 0;
    if (!good) {
        (void)close(server->fd);
        free(server);
        return NULL;
    }
    server->port = ntohs(address.sin_port);
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_create(&server->thread, NULL, accept_all, server);
    return server;
}

struct net_server *net_server_free(struct net_server *server)
{
    if (server == NULL)
        return NULL;
    (void)shutdown(server->fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->fd);
    for (int i = 0; i < server->count; i++) {
        (void)shutdown(server->connections[i]->fd, SHUT_RDWR);
        (void)pthread_join(server->connections[i]->thread, NULL);
        (void)close(server->connections[i]->fd);
        free(server->connections[i]);
    }
    (void)pthread_mutex_destroy(&server->lock);
    SSL_CTX_free(server->tls);
    buf_done(&server->log);
    free(server);
    return NULL;
}

int net_server_port(const struct net_server *server)
{
    return server->port;
}

int net_server_hits(const struct net_server *server)
{
    (void)pthread_mutex_lock((pthread_mutex_t *)&server->lock);
    int count = server->count;
    (void)pthread_mutex_unlock((pthread_mutex_t *)&server->lock);
    return count;
}

void net_server_log(struct net_server *server, struct buf *out)
{
    (void)pthread_mutex_lock(&server->lock);
    buf_put(out, buf_str(&server->log));
    (void)pthread_mutex_unlock(&server->lock);
}

void net_server_set_tls(struct net_server *server, const char *cert_file, const char *key_file)
{
    server->tls = SSL_CTX_new(TLS_server_method());
    bool good = SSL_CTX_use_certificate_file(server->tls, cert_file, SSL_FILETYPE_PEM) == 1 &&
                SSL_CTX_use_PrivateKey_file(server->tls, key_file, SSL_FILETYPE_PEM) == 1;
    assert(good);
}
