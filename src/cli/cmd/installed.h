#pragma once

/* What `sandglass runtime` and `sandglass model` share: both list, add and remove what is in the
 * data directory. */

#include "runtime/runtimes.h"

struct cli_call;
struct config;
struct err;

/* The configuration, and the data directory that it names. */
int installed_open(const struct cli_call *call, struct config **ret_config,
                   char ret_data_dir[RUNTIME_PATH_MAX], struct err *err) MUST_USE;
const char *installed_state_name(enum runtime_state state);
