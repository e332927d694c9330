#pragma once

/* The nodes of a tree in memory, only for memory_tree.c and memory_file.c. Paths here are those of
 * memory_tree_path; nodes belong to their tree. */

#include "tiers/memory/memory_tree.h"

struct memory_node {
    enum file_type type;
    uint32_t mode;
    int64_t mtime_ns;
    char *bytes; /* of a link: its target */
    size_t len;
};

/* "/a//b/" becomes "/a/b", the root "". INVALID for what cannot be a path. */
int memory_tree_path(struct str path, struct arena *arena, struct str *ret_path,
                     struct err *err) MUST_USE;
bool memory_tree_is_below(struct str path, struct str dir);

/* NULL with NOT_FOUND or NOT_A_FILE. The root is a directory and has no node. */
struct memory_node *memory_tree_need(struct memory_tree *tree, struct str path,
                                     struct err *err) MUST_USE;
struct memory_node *memory_tree_need_file(struct memory_tree *tree, struct str path,
                                          struct err *err) MUST_USE;
int memory_tree_need_dir(struct memory_tree *tree, struct str path, struct err *err) MUST_USE;

/* NO_SPACE if a node and `more` bytes do not fit. */
int memory_tree_make_room(const struct memory_tree *tree, size_t more, struct err *err) MUST_USE;
/* The directories above `path`; without `make` its parent must be there. */
int memory_tree_make_parents(struct memory_tree *tree, struct str path, bool make,
                             struct err *err) MUST_USE;
/* An empty node in the place of whatever was there. */
struct memory_node *memory_tree_put(struct memory_tree *tree, struct str path, enum file_type type,
                                    uint32_t mode);
void memory_tree_set_bytes(struct memory_tree *tree, struct memory_node *node, struct str bytes);
/* Everything below `path`, and itself; how many. */
uint64_t memory_tree_drop(struct memory_tree *tree, struct str path);
