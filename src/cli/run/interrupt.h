#pragma once

/* Interrupting code that a server runs. */

#include "cli/remote.h"

struct interrupt_target {
    const char *sandbox, *session; /* one of the two */
    const char *context;           /* NULL: those that run something, */
    const char *runtime;           /* of this runtime; NULL: of any */
};

/* How many were interrupted, or -1. */
int interrupt_code(sg_client *client, const struct interrupt_target *target, struct err *err);
/* Ends the code with its interpreter, which starts again: its variables are lost. */
int interrupt_end_code(sg_client *client, const struct interrupt_target *target, struct err *err);
