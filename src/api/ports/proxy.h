#pragma once

/* A request that a server in a sandbox answers. */

struct api;
struct request;

/* The handler of rows of FORM_PROXY, after api/ports/port_access.h has let the request in. */
void proxy_request(struct request *request, struct api *api);
