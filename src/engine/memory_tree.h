#pragma once

/* A file tree in memory, for the tier that runs nothing. Paths are absolute, without "." and "..";
 * links are kept and not followed. */

#include "base/map.h"
#include "engine/file.h"

struct buf;

enum { TREE_BYTES_MAX = 64 << 20, TREE_NODES_MAX = 100000 };

struct tree {
    struct map nodes; /* by path; the root is not among them */
    uint64_t bytes;
    uint64_t bytes_max; /* 0: TREE_BYTES_MAX */
};

void tree_done(struct tree *tree);

/* The answer's texts belong to `arena`. UNSUPPORTED for GREP. */
int tree_file(struct tree *tree, const struct file_request *request, struct arena *arena,
              struct file_answer *ret_answer, struct err *err) MUST_USE;

/* All of it as bytes, and back: INTERNAL when they are not those of a tree. */
void tree_pack(const struct tree *tree, struct buf *out);
int tree_unpack(struct tree *tree, struct str bytes, struct err *err) MUST_USE;
