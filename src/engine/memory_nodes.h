#pragma once

/* The nodes of a tree in memory, for memory_tree.c and memory_file.c alone. Paths here are those of
 * tree_path; nodes belong to their tree. */

#include "engine/memory_tree.h"

struct node {
    enum file_type type;
    uint32_t mode;
    int64_t mtime_ns;
    char *bytes; /* of a link: its target */
    size_t len;
};

/* "/a//b/" becomes "/a/b", the root "". INVALID for what cannot be a path. */
int tree_path(struct str path, struct arena *arena, struct str *ret_path, struct err *err) MUST_USE;
bool tree_is_below(struct str path, struct str dir);

/* NULL with NOT_FOUND or NOT_A_FILE. The root is a directory and has no node. */
struct node *tree_need(struct tree *tree, struct str path, struct err *err) MUST_USE;
struct node *tree_need_file(struct tree *tree, struct str path, struct err *err) MUST_USE;
int tree_need_dir(struct tree *tree, struct str path, struct err *err) MUST_USE;

/* NO_SPACE when a node and so many bytes more are too much. */
int tree_make_room(const struct tree *tree, size_t more, struct err *err) MUST_USE;
/* The directories above `path`; without `make` its parent must be there. */
int tree_make_parents(struct tree *tree, struct str path, bool make, struct err *err) MUST_USE;
/* An empty node in the place of whatever was there. */
struct node *tree_put(struct tree *tree, struct str path, enum file_type type, uint32_t mode);
void tree_set_bytes(struct tree *tree, struct node *node, struct str bytes);
/* Everything below `path`, and itself; how many. */
uint64_t tree_drop(struct tree *tree, struct str path);
