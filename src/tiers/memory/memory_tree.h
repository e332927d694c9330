#pragma once

/* A file tree in memory, for the tier that runs nothing. Paths are absolute, without "." and "..";
 * links are kept and not followed. */

#include "base/map.h"
#include "engine/file/file.h"

struct buf;

enum { TREE_BYTES_MAX = 64 << 20, TREE_NODES_MAX = 100000 };

struct memory_tree {
    struct map nodes; /* by path; the root is not among them */
    uint64_t bytes;
    uint64_t bytes_max; /* 0: TREE_BYTES_MAX */
};

void memory_tree_done(struct memory_tree *tree);

/* The answer's texts belong to `arena`. UNSUPPORTED for GREP. */
int memory_tree_file(struct memory_tree *tree, const struct file_request *request,
                     struct arena *arena, struct file_answer *ret_answer, struct err *err) MUST_USE;

/* All of it as bytes, and back: INTERNAL when they are not those of a tree. */
void memory_tree_pack(const struct memory_tree *tree, struct buf *out);
int memory_tree_unpack(struct memory_tree *tree, struct str bytes, struct err *err) MUST_USE;
