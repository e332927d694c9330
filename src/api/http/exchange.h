#pragma once

/* One request and its answer, as far as http.c need not ask the HTTP library: its beginning,
 * limits, counting, what goes past the library. For http.c. */

#include "api/http/internal.h"

/* The head is here: it is judged, and a row that streams its body is called at once. May reply. */
void exchange_begin(struct conn *conn, struct request *request);
/* The body is here. Without a reply the request is held. */
void exchange_dispatch(struct request *request);
/* To the buffer or the sink; a failure becomes the reply. */
void exchange_take_body(struct request *request, struct str bytes);
/* Counts and logs the reply. */
void exchange_note(struct http *http, struct request *request);
/* The library takes no answer in the middle of a body: it goes past it, and the connection ends. */
void exchange_answer_early(struct conn *conn, struct request *request);
/* Every header of the reply; texts are NUL-terminated. */
void exchange_headers(const struct request *request,
                      void (*put)(void *ctx, const char *name, const char *value), void *ctx);
