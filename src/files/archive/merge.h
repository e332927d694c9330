#pragma once

/* Moves everything from one directory into another, directories into directories of the same name.
 * A file takes a file's place; between a file and a directory it is CONFLICT, found before anything
 * is moved; with `replaces` what is in the way is removed instead, and directories take the modes
 * of the incoming ones. Levels are few: the archive that filled `from_fd` was held to a depth. */
#include "base/base.h"

struct err;

int files_merge(int from_fd, int to_fd, unsigned how, bool replaces, struct err *err)
    __attribute__((warn_unused_result));
