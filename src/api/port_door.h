#pragma once

/* The door of a sandbox's ports: which requests name one, and who may go through. docs/PORTS.md
 * tells the rules from outside. */

#include "base/buf.h"
#include "base/str.h"

struct api;
struct request;
struct sandbox_port;

/* A Host of the form PORT-ID.DOMAIN: the request becomes one for that port's path. */
bool port_door_find(const struct api *api, struct request *request, struct str host);

/* Instead of the checks that other rows get: finds the way, and the caller from a token of the API,
 * from a token for the port or, where it is public, from nothing. False with a reply. */
bool port_door_check(struct api *api, struct request *request);

enum { PORT_TOKEN_SIZE = 128 };
/* Good until `expires_s` or until the port is hidden. */
void port_token(const struct api *api, struct str id, const struct sandbox_port *port,
                int64_t expires_s, char out[PORT_TOKEN_SIZE]);
/* "http://8000-ID.DOMAIN/"; with a token, the URL that lets a browser in. Nothing without domain.
 */
void port_put_url(const struct api *api, struct str id, uint16_t port, const char *token,
                  struct buf *out);
