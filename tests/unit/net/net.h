#pragma once

/* Servers of a test's own, on loopback: TCP ones that answer as the test says, and a name server.
 * Each runs in threads of its own, so that a test can drive the loop meanwhile. */

#include "base/buf.h"

/* Answers one request on the server's thread; `head` ends with the empty line, `body` has its
 * Content-Length. The connection is closed afterwards. */
typedef void net_serve(int fd, struct str head, struct str body, void *ctx);

struct net_server;
/* `port` 0 for any. */
struct net_server *net_server_start(const char *ip, int port, net_serve *serve, void *ctx);
/* NULL when another process has the port. */
struct net_server *net_server_try(const char *ip, int port, net_serve *serve, void *ctx);
struct net_server *net_server_free(struct net_server *server);
DEFINE_FREEP(net_server)
#define AUTO_SERVER AUTO(net_server_freep)
int net_server_port(const struct net_server *server);
int net_server_hits(const struct net_server *server); /* connections accepted */
/* Everything that was received, in order of arrival. */
void net_server_log(struct net_server *server, struct buf *out);
/* From now on it speaks TLS with this certificate and key (PEM). */
void net_server_set_tls(struct net_server *server, const char *cert_file, const char *key_file);
/* Writes a self-signed certificate for `host` and its key. */
void net_make_cert(const char *host, const char *cert_file, const char *key_file);

/* False once the peer has gone. */
bool net_put(int fd, struct str bytes);
bool net_put_cstr(int fd, const char *text);
/* A whole answer with Content-Length. */
void net_answer(int fd, const char *status, const char *headers, struct str body);

struct net_dns;
struct net_dns *net_dns_start(void);
struct net_dns *net_dns_free(struct net_dns *dns);
DEFINE_FREEP(net_dns)
#define AUTO_DNS AUTO(net_dns_freep)
/* "127.0.0.1:PORT" */
const char *net_dns_address(const struct net_dns *dns);
/* Addresses with blanks between; after a '|' what the next A and AAAA queries get; "cname:NAME"
 * leads to another name's; "silent" is never answered. Other names do not exist. */
void net_dns_set(struct net_dns *dns, const char *name, const char *answers);
int net_dns_queries(struct net_dns *dns, const char *name);
