#pragma once

/* Secrets in the gate, for each hop: values are inserted into a request just before it is sent, and
 * removed from its response before any reader sees it. */

#include "egress/policy/url.h"
#include "io/fetch.h"

struct arena;
struct secrets;

/* The headers as they go to this URL, at most FETCH_REQUEST_HEADERS_MAX. Values live in `values`,
 * which wipes and stays unchanged as long as `out` is used. */
void gate_fill_headers(const struct secrets *secrets, const struct url *url,
                       const struct fetch_header *headers, size_t count, struct buf *values,
                       struct fetch_header out[FETCH_REQUEST_HEADERS_MAX]);
/* The name of a secret without a value that one of the headers would carry there, or NULL. */
const char *gate_missing_secret(const struct secrets *secrets, const struct url *url,
                                const struct fetch_header *headers, size_t count);
/* The answer without the values; its parts belong to `arena` where anything can have changed. */
struct fetch_answer gate_scrub_answer(const struct secrets *secrets, const struct url *url,
                                      const struct fetch_answer *answer, struct arena *arena);
/* A secret names this header: it does not follow a redirect to another host. */
bool gate_is_secret_header(const struct secrets *secrets, struct str name);
