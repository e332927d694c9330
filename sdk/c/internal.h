#pragma once

/* Between the files of the library. */

#include "sandglass.h"

/* `done(ctx)` runs when the client is closed. */
void sg_client_on_close(sg_client *client, void (*done)(void *ctx), void *ctx);
/* A JSON text with its quotes, to be freed; NULL when there is no memory. */
char *sg_quote(const char *text);
/* Sets the last error; gives -1. */
int sg_client_fail(sg_client *client, const char *code, const char *message);
