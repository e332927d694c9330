#pragma once

/* Bytes of any length between this machine and a server, with progress on a terminal. */

#include "cli/remote.h"

/* What GET `route` gives, into `fd`. */
int transfer_down(const struct cli_call *call, const char *route, int fd, struct err *err) MUST_USE;
/* The same into a new file, which takes its name when all of it came; "-" is standard output. */
int transfer_down_file(const struct cli_call *call, const char *route, const char *file,
                       struct err *err) MUST_USE;
/* All of `fd` as the body. `ret_json` may be NULL. */
int transfer_up(const struct cli_call *call, const char *method, const char *route, int fd,
                struct json_t **ret_json, struct err *err) MUST_USE;
