#pragma once

/* Directories between this machine and a sandbox, as tar streams.
 *
 * Packing and unpacking run in a child process beside the transfer: one side is called with bytes,
 * the other asks for them. An archive that comes from a sandbox is untrusted: files/archive/tar.h
 * keeps its names and links inside the target. */

#include "cli/transfer.h"

/* Everything below `dir` into the directory `path` of the sandbox; what is there is merged. */
int transfer_tree_up(const struct cli_call *call, const char *dir, const char *sandbox,
                     const char *path, struct err *err) MUST_USE;
/* Everything below the directory `path` of the sandbox into `dir`, which is made. */
int transfer_tree_down(const struct cli_call *call, const char *sandbox, const char *path,
                       const char *dir, struct err *err) MUST_USE;
