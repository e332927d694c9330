#pragma once

/* The entries of an archive, judged and written one by one below a fresh directory. */

#include "base/vec.h"
#include "files/archive/tar.h"

struct pack_reader;

struct unpacking {
    struct pack_reader *reader;
    struct files_tar_limits limits;
    struct files_tar_result result;
    uint64_t written;             /* bytes of data, holes not counted */
    int root_fd;                  /* the fresh directory */
    int dir_fd;                   /* the directory of the last entry, */
    char dir[FILES_PATH_MAX + 1]; /* and its name */
    bool is_layer;
    bool has_any_links;   /* as those of a layer: they may lead anywhere */
    VEC(char *) removals; /* paths; of a layer */
};

/* All of it, below `root_fd`; `limits` and `is_layer` say what may be. Fails as files_tar_in does,
 * with some of it written. */
int files_unpack(struct unpacking *unpacking, const struct files_source *source,
                 struct err *err) MUST_USE;
