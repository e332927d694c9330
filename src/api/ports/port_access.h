#pragma once

/* Access to the ports of a sandbox: which requests name one, and who may use it. docs/PORTS.md
 * tells the rules from outside. */

#include "base/buf.h"
#include "base/str.h"

struct api;
struct request;
struct sandbox_port;

/* A Host of the form PORT-ID.DOMAIN: the request becomes one for that port's path. */
bool port_access_find(const struct api *api, struct request *request, struct str host);

/* Instead of the checks that other rows get: finds the way, and the caller from a token of the API,
 * from a token for the port or, where it is public, from nothing. False with a reply. */
bool port_access_check(struct api *api, struct request *request);

enum { PORT_TOKEN_SIZE = 128 };
/* Good until `expires_s` or until the port is hidden. */
void port_token(const struct api *api, struct str id, const struct sandbox_port *port,
                int64_t expires_s, char out[PORT_TOKEN_SIZE]);
/* "/v1/sandboxes/ID/ports/8000/" */
void port_put_path(struct str id, uint16_t port, struct buf *out);
/* "http://8000-ID.DOMAIN/", without server.domain the path on the server as the client of `request`
 * reached it; with a token, the URL that lets a browser in. */
void port_put_url(const struct api *api, const struct request *request, struct str id,
                  uint16_t port, const char *token, struct buf *out);
