#pragma once

/* Notices whether anything below a directory has changed.
 *
 * For automatic checkpoints of /workspace. FILES_KEEP_OWN at the top of the directory is the
 * product's own (installed packages, its notes) and is left out. */

#include "files/files.h"

#define FILES_KEEP_OWN ".sandglass"

/* A fingerprint of a tree in two numbers: names, kinds, modes, sizes, modification times and
 * inodes. Equal fingerprints mean that nothing was changed in between, as far as the kernel's times
 * can tell. */
struct files_mark {
    uint64_t entries, sum[2];
};
int files_mark(struct files *files, struct str path, struct files_mark *ret_mark,
               struct err *err) MUST_USE;
