#pragma once

/* Between the files of the library. */

#include "sandglass.h"

/* `done(ctx)` runs when the client is closed. */
void sg_client_on_close(sg_client *client, void (*done)(void *ctx), void *ctx);
/* Sets the last error; gives -1. */
int sg_client_fail(sg_client *client, const char *code, const char *message);
