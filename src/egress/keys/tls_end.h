#pragma once

/* One end of a TLS connection (OpenSSL, its ssl.h included only in tls_end.c) without a socket: the
 * caller carries the bytes.
 *
 *     network --feed--> [ end ] --read-->  plain
 *     network <-drain-- [ end ] <-write--  plain
 *
 * Towards the sandbox an end is the server, with a certificate of the sandbox's authority for the
 * one host that the connection was judged for; a client that names another is refused. Towards that
 * host an end is the client: certificate and name are checked, without a way around it. TLS 1.2 or
 * 1.3, HTTP/1.1 as the only protocol, no renegotiation, no session is kept.
 *
 * Never blocks. One thread at a time. */

#include "egress/policy/host.h"

struct authority;
struct buf;
struct tls_trust; /* what ends share: settings and trusted roots; one for a process will do */
struct tls_end;

/* `roots` is PEM: what servers' certificates must lead to. The host's come from
 * authority_read_host_bundle; a test adds its own. With none every server is refused. INVALID for
 * text without a readable certificate. */
int tls_trust_new(struct str roots, struct tls_trust **ret_tls, struct err *err) MUST_USE;
struct tls_trust *tls_trust_free(struct tls_trust *tls); /* its ends may outlive it */
DEFINE_FREEP(tls_trust)
#define AUTO_TLS_TRUST AUTO(tls_trust_freep)

/* The authority is used now and not kept. */
int tls_server_new(struct tls_trust *tls, struct authority *authority, const struct host *host,
                   struct tls_end **ret_end, struct err *err) MUST_USE;
/* Its first bytes can be drained at once. */
int tls_client_new(struct tls_trust *tls, const struct host *host, struct tls_end **ret_end,
                   struct err *err) MUST_USE;
struct tls_end *tls_end_free(struct tls_end *end);
DEFINE_FREEP(tls_end)
#define AUTO_TLS_END AUTO(tls_end_freep)

/* Bytes from the network, all consumed; continues the handshake as far as they allow. FORBIDDEN for
 * a refused certificate or name, UNAVAILABLE if the bytes are not TLS. After a failure only drain
 * still works: it gives the alert that tells the peer why. */
int tls_end_feed(struct tls_end *end, struct str bytes, struct err *err) MUST_USE;
/* Appends plain bytes that have arrived, `max` at most. */
int tls_end_read(struct tls_end *end, struct buf *out, size_t max, struct err *err) MUST_USE;
/* Takes all of `plain`; the handshake must be over. What is written waits in memory until it is
 * drained, so drain before writing more. */
int tls_end_write(struct tls_end *end, struct str plain, struct err *err) MUST_USE;
/* Appends up to `max` bytes for the network; gives how many. */
size_t tls_end_drain(struct tls_end *end, struct buf *out, size_t max);
/* Says goodbye to the peer; drain once more. */
void tls_end_close(struct tls_end *end);

bool tls_end_is_ready(const struct tls_end *end); /* the handshake is over */
/* The peer said goodbye: what was read is all there is. A connection that ends without it may have
 * been cut. */
bool tls_end_is_closed(const struct tls_end *end);
