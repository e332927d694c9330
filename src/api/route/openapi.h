#pragma once

/* The route table, described to programs as an OpenAPI 3.1 document, to people as
 * docs/API.md. */

#include "base/buf.h"

struct route;

/* Every table that the server serves; ends with NULL. */
extern const struct route *const api_tables[];

/* `routes` is what routes_new made. */
void openapi_put(const struct route *routes, struct buf *out);
void openapi_put_docs(const struct route *routes, struct buf *out);
/* The path as others write it: "{rest...}" is "{rest}". */
void openapi_put_path(const char *pattern, struct buf *out);
