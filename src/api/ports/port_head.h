#pragma once

/* Heads on their way to a server in a sandbox and back: which headers pass, which are ours.
 * docs/PORTS.md has the rules and their reasons. Pure: no input or output. */

#include "api/http/request.h"
#include "api/ports/upstream.h"

/* The cookie, the header and the query parameter that carry a port's token. None of them reaches
 * the sandbox. */
#define PORT_COOKIE "sandglass_port"
#define PORT_HEADER "X-Sandglass-Port-Token"
#define PORT_QUERY "sandglass_token"

/* How a request came to a port. */
struct port_way {
    struct str id;
    uint16_t port;
    struct str prefix; /* "/v1/sandboxes/ID/ports/PORT" */
    struct str path;   /* as the server inside sees it */
    bool is_https;     /* between the client and us, as far as we know */
    bool keeps_auth;   /* Authorization is the application's own */
    bool is_upgrade;   /* a WebSocket is asked for */
    bool is_chunked;   /* the body goes on in chunks, for its length is not known */
    char peer[64];     /* the client's address; "" when unknown */
};

/* The head of the request for the server inside, as whole bytes. */
void port_put_request(const struct request *request, const struct port_way *way, struct buf *out);

/* The headers of the answer for the client, in the request's arena. */
struct request_header *port_answer_headers(struct request *request, const struct upstream *upstream,
                                           const struct port_way *way, size_t *ret_count);

/* A query without our own parameter. */
void port_put_query(struct str query, struct buf *out);
/* The value of the cookie of our name, counted from 0; false when there are fewer. A page of
 * another sandbox may have put some of that name beside ours. */
bool port_cookie(const struct request *request, size_t which, struct str *ret_value) MUST_USE;
