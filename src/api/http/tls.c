#include "api/http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

enum { BLOCK = 32 << 10, GOODBYE_MS = 2000 };

struct tls_conn;
struct tls {
    SSL_CTX *ctx;
    struct tls_conn *conns;
};

/* Bytes on their way in one direction. */
struct lane {
    char bytes[BLOCK];
    size_t from, to;
    bool is_ended; /* nothing more comes */
    bool is_told;  /* and the other side knows */
};

/* One connection: `in` from the client to the server, `out` back. SSL is asked again with the same
 * bytes whenever it could not go on, in either direction: it tells what it waits for. */
struct tls_conn {
    struct tls *tls;
    SSL *ssl;
    int fd, plain;
    struct watch *watch, *plain_watch;
    struct timer *handshake;
    struct lane in, out;
    bool wants_write; /* SSL waits for room in the socket */
    struct tls_conn *next, *prev;
};

static int failed(struct err *err, const char *what, const char *file)
{
    char text[120];
    unsigned long code = ERR_get_error();
    ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return err_set(err, ERR_INVALID, "%s '%s': %s", what, file,
                   code == 0 ? "cannot be used" : text);
}

static int check_key_file(const char *file, struct err *err)
{
    struct stat st;
    if (stat(file, &st) < 0)
        return err_sys(err, errno, "TLS key '%s'", file);
    if ((st.st_mode & 0007) != 0)
        return err_set(err, ERR_FORBIDDEN, "TLS key '%s' is accessible to others; run chmod 600",
                       file);
    return 0;
}

int tls_open(const char *cert_file, const char *key_file, struct tls **ret_tls, struct err *err)
{
    if (access(cert_file, R_OK) < 0)
        return err_sys(err, errno, "TLS certificate '%s'", cert_file);
    if (check_key_file(key_file, err) < 0)
        return -1;
    struct tls *tls = mem_alloc(sizeof *tls);
    tls->ctx = SSL_CTX_new(TLS_server_method());
    assert(tls->ctx != NULL);
    (void)SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                            SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_mode(tls->ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    int done = 0;
    if (SSL_CTX_use_certificate_chain_file(tls->ctx, cert_file) != 1)
        done = failed(err, "TLS certificate", cert_file);
    else if (SSL_CTX_use_PrivateKey_file(tls->ctx, key_file, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(tls->ctx) != 1)
        done = failed(err, "TLS key", key_file);
    if (done < 0) {
        (void)tls_free(tls);
        return -1;
    }
    *ret_tls = tls;
    return 0;
}

/* ---- one connection ------------------------------------------------------------------------ */

static void conn_free(struct tls_conn *conn)
{
    *(conn->prev == NULL ? &conn->tls->conns : &conn->prev->next) = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    conn->watch = watch_free(conn->watch);
    conn->plain_watch = watch_free(conn->plain_watch);
    conn->handshake = timer_free(conn->handshake);
    SSL_free(conn->ssl);
    fd_close(&conn->fd);
    fd_close(&conn->plain);
    free(conn);
}

struct tls *tls_free(struct tls *tls)
{
    if (tls == NULL)
        return NULL;
    struct tls_conn *next;
    for (struct tls_conn *conn = tls->conns; conn != NULL; conn = next) {
        next = conn->next;
        conn_free(conn);
    }
    SSL_CTX_free(tls->ctx);
    free(tls);
    return NULL;
}

/* True when SSL only waits; false: this direction is over. */
static bool only_waits(struct tls_conn *conn, int result)
{
    int why = SSL_get_error(conn->ssl, result);
    conn->wants_write = conn->wants_write || why == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

static bool read_client(struct tls_conn *conn)
{
    struct lane *lane = &conn->in;
    if (lane->is_ended || lane->from < lane->to)
        return false;
    int count = SSL_read(conn->ssl, lane->bytes, BLOCK);
    if (count <= 0) {
        lane->is_ended = !only_waits(conn, count);
        return false;
    }
    if (!conn->out.is_told)
        timer_clear(conn->handshake);
    lane->from = 0;
    lane->to = (size_t)count;
    return true;
}

static bool write_server(struct tls_conn *conn)
{
    struct lane *lane = &conn->in;
    if (lane->from == lane->to)
        return false;
    ssize_t count = send(conn->plain, lane->bytes + lane->from, lane->to - lane->from,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR)
        lane->is_ended = lane->is_told = true, lane->from = lane->to;
    if (count <= 0)
        return false;
    lane->from += (size_t)count;
    return true;
}

static bool read_server(struct tls_conn *conn)
{
    struct lane *lane = &conn->out;
    if (lane->is_ended || lane->from < lane->to)
        return false;
    ssize_t count = read(conn->plain, lane->bytes, BLOCK);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        lane->is_ended = true;
    if (count <= 0)
        return false;
    lane->from = 0;
    lane->to = (size_t)count;
    return true;
}

static bool write_client(struct tls_conn *conn)
{
    struct lane *lane = &conn->out;
    if (lane->from == lane->to)
        return false;
    int count = SSL_write(conn->ssl, lane->bytes + lane->from, (int)(lane->to - lane->from));
    if (count <= 0) {
        if (!only_waits(conn, count))
            lane->is_ended = lane->is_told = true, lane->from = lane->to;
        return false;
    }
    lane->from += (size_t)count;
    return true;
}

/* An end on one side becomes an end on the other, once all before it has gone. */
static void pass_ends(struct tls_conn *conn)
{
    if (conn->in.is_ended && !conn->in.is_told && conn->in.from == conn->in.to) {
        conn->in.is_told = true;
        (void)shutdown(conn->plain, SHUT_WR);
    }
    if (conn->out.is_ended && !conn->out.is_told && conn->out.from == conn->out.to) {
        conn->out.is_told = true;
        (void)SSL_shutdown(conn->ssl);
        ERR_clear_error();
        (void)shutdown(conn->fd, SHUT_WR);
        timer_set(conn->handshake, GOODBYE_MS, 0); /* who does not close is closed */
    }
}

static void pump(struct tls_conn *conn)
{
    conn->wants_write = false;
    bool moved = true;
    if (!SSL_is_init_finished(conn->ssl)) {
        int done = SSL_accept(conn->ssl);
        if (done != 1 && !only_waits(conn, done)) {
            conn_free(conn);
            return;
        }
        moved = done == 1;
    }
    for (int round = 0; moved && round < 16; round++) {
        bool in = read_client(conn), to_server = write_server(conn);
        bool out = read_server(conn), to_client = write_client(conn);
        moved = in || to_server || out || to_client;
    }
    pass_ends(conn);
    /* The server's end is the end: a client that still sends is lingered for there. */
    if (conn->out.is_told && (conn->in.is_told || conn->in.is_ended)) {
        conn_free(conn);
        return;
    }
    bool in_waits = conn->in.from < conn->in.to, out_waits = conn->out.from < conn->out.to;
    bool pending = SSL_pending(conn->ssl) > 0 && !in_waits;
    watch_set(conn->watch, (in_waits || conn->in.is_ended ? 0 : WATCH_READ) |
                               (conn->wants_write || out_waits || pending ? WATCH_WRITE : 0));
    watch_set(conn->plain_watch,
              (out_waits || conn->out.is_ended ? 0 : WATCH_READ) | (in_waits ? WATCH_WRITE : 0));
}

static void tls_on_ready(void *ctx, UNUSED int events)
{
    pump(ctx);
}

static void on_late(void *ctx)
{
    conn_free(ctx);
}

int tls_accept(struct tls *tls, struct loop *loop, int fd, int *ret_plain_fd, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return err_sys(err, errno, "make a socket pair");
    struct tls_conn *conn = mem_alloc(sizeof *conn);
    *conn = (struct tls_conn){.tls = tls, .fd = -1, .plain = ends[1]};
    conn->ssl = SSL_new(tls->ctx);
    conn->next = tls->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    tls->conns = conn;
    conn->handshake = timer_new(loop, on_late, conn);
    if (conn->ssl == NULL || SSL_set_fd(conn->ssl, fd) != 1 ||
        watch_new(loop, fd, WATCH_READ, tls_on_ready, conn, &conn->watch, err) < 0 ||
        watch_new(loop, conn->plain, WATCH_READ, tls_on_ready, conn, &conn->plain_watch, err) < 0) {
        conn_free(conn);
        (void)close(ends[0]);
        return err_set(err, ERR_INTERNAL, "cannot start TLS on a connection");
    }
    conn->fd = fd;
    SSL_set_accept_state(conn->ssl);
    timer_set(conn->handshake, TLS_HANDSHAKE_MS, 0);
    *ret_plain_fd = ends[0];
    return 0;
}
