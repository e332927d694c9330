#include "tiers/memory/memory_tree.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "tiers/memory/memory_nodes.h"

static struct memory_node *node_free(struct memory_node *node)
{
    if (node != NULL) {
        free(node->bytes);
        free(node);
    }
    return NULL;
}

void memory_tree_done(struct memory_tree *tree)
{
    MAP_EACH (entry, &tree->nodes)
        (void)node_free(entry->value);
    map_done(&tree->nodes);
    *tree = (struct memory_tree){.bytes_max = tree->bytes_max};
}

static int64_t now_ns(void)
{
    return clock_date_ms() * 1000000;
}

/* --- Paths --- */

int memory_tree_path(struct str path, struct arena *arena, struct str *ret_path, struct err *err)
{
    char *out = arena_alloc(arena, path.len + 2);
    size_t len = 0;
    struct str rest = path, part;
    if (path.len == 0 || path.ptr[0] != '/' || path.len > FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "path: must be absolute and at most %d bytes",
                       FILE_PATH_MAX);
    if (str_find_char(path, '\0') != path.len)
        return err_set(err, ERR_INVALID, "path: contains a NUL byte");
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")))
            continue;
        if (str_eq(part, STR("..")) || part.len > 255)
            return err_set(err, ERR_INVALID, "path: '%.*s' is not allowed in a path",
                           (int)MIN(part.len, (size_t)64), part.ptr);
        out[len++] = '/';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
    }
    *ret_path = str_n(out, len);
    return 0;
}

static struct str parent_of(struct str path)
{
    size_t at = path.len;
    while (at > 0 && path.ptr[at - 1] != '/')
        at--;
    return str_slice(path, 0, at == 0 ? 0 : at - 1);
}

bool memory_tree_is_below(struct str path, struct str dir)
{
    return path.len > dir.len && str_starts(path, dir) && path.ptr[dir.len] == '/';
}

struct memory_node *memory_tree_need(struct memory_tree *tree, struct str path, struct err *err)
{
    struct memory_node *node = map_get(&tree->nodes, path);
    if (node == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "no file '%.*s'", STR_ARG(path));
    return node;
}

struct memory_node *memory_tree_need_file(struct memory_tree *tree, struct str path,
                                          struct err *err)
{
    struct memory_node *node = memory_tree_need(tree, path, err);
    if (node != NULL && node->type != FILE_REGULAR) {
        (void)err_set(err, ERR_NOT_A_FILE, "'%.*s' is not a regular file", STR_ARG(path));
        return NULL;
    }
    return node;
}

int memory_tree_need_dir(struct memory_tree *tree, struct str path, struct err *err)
{
    const struct memory_node *node = path.len == 0 ? NULL : memory_tree_need(tree, path, err);
    if (path.len > 0 && node == NULL)
        return -1;
    if (node != NULL && node->type != FILE_DIRECTORY)
        return err_set(err, ERR_NOT_A_DIRECTORY, "'%.*s' is not a directory", STR_ARG(path));
    return 0;
}

/* --- Changing --- */

int memory_tree_make_room(const struct memory_tree *tree, size_t more, struct err *err)
{
    uint64_t limit = tree->bytes_max == 0 ? TREE_BYTES_MAX : tree->bytes_max;
    if (tree->nodes.len >= TREE_NODES_MAX)
        return err_set(err, ERR_NO_SPACE, "more than %d files", TREE_NODES_MAX);
    if (tree->bytes + more > limit)
        return err_set(err, ERR_NO_SPACE, "the files of the sandbox would exceed %llu bytes",
                       (unsigned long long)limit);
    return 0;
}

struct memory_node *memory_tree_put(struct memory_tree *tree, struct str path, enum file_type type,
                                    uint32_t mode)
{
    struct memory_node *node = mem_alloc(sizeof *node);
    *node = (struct memory_node){.type = type, .mode = mode, .mtime_ns = now_ns()};
    struct memory_node *old = map_put(&tree->nodes, path, node);
    if (old != NULL)
        tree->bytes -= old->len;
    (void)node_free(old);
    return node;
}

void memory_tree_set_bytes(struct memory_tree *tree, struct memory_node *node, struct str bytes)
{
    tree->bytes = tree->bytes - node->len + bytes.len;
    char *copy = mem_alloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    free(node->bytes);
    node->bytes = copy;
    node->len = bytes.len;
    node->mtime_ns = now_ns();
}

int memory_tree_make_parents(struct memory_tree *tree, struct str path, bool make, struct err *err)
{
    struct str parent = parent_of(path);
    if (parent.len == 0)
        return 0;
    if (map_get(&tree->nodes, parent) != NULL || !make)
        return memory_tree_need_dir(tree, parent, err);
    if (memory_tree_make_parents(tree, parent, true, err) < 0 ||
        memory_tree_make_room(tree, 0, err) < 0)
        return -1;
    (void)memory_tree_put(tree, parent, FILE_DIRECTORY, 0755);
    return 0;
}

uint64_t memory_tree_drop(struct memory_tree *tree, struct str path)
{
    uint64_t count = 0;
    MAP_EACH (entry, &tree->nodes) {
        if (!memory_tree_is_below(entry->key, path) && !str_eq(entry->key, path))
            continue;
        struct memory_node *node = map_remove(&tree->nodes, entry->key);
        tree->bytes -= node->len;
        (void)node_free(node);
        count++;
    }
    return count;
}

/* --- As bytes --- */

#define MAGIC "SGT1"

struct record {
    uint32_t type, mode;
    int64_t mtime_ns;
    uint64_t path_len, len;
};

void memory_tree_pack(const struct memory_tree *tree, struct buf *out)
{
    buf_put_cstr(out, MAGIC);
    MAP_EACH (entry, &tree->nodes) {
        const struct memory_node *node = entry->value;
        struct record record = {node->type, node->mode, node->mtime_ns, entry->key.len, node->len};
        buf_put(out, str_n((const char *)&record, sizeof record));
        buf_put(out, entry->key);
        buf_put(out, str_n(node->bytes, node->len));
    }
}

int memory_tree_unpack(struct memory_tree *tree, struct str bytes, struct err *err)
{
    struct record record;
    if (!str_starts(bytes, STR(MAGIC)))
        return err_set(err, ERR_INTERNAL, "not a stored file tree");
    bytes = str_slice(bytes, strlen(MAGIC), bytes.len);
    while (bytes.len > 0) {
        if (bytes.len < sizeof record)
            return err_set(err, ERR_INTERNAL, "the stored file tree is truncated");
        memcpy(&record, bytes.ptr, sizeof record);
        bytes = str_slice(bytes, sizeof record, bytes.len);
        if (record.path_len > bytes.len || record.len > bytes.len - record.path_len ||
            record.type > FILE_OTHER)
            return err_set(err, ERR_INTERNAL, "the stored file tree is damaged");
        struct memory_node *node = memory_tree_put(tree, str_slice(bytes, 0, record.path_len),
                                                   (enum file_type)record.type, record.mode);
        memory_tree_set_bytes(tree, node,
                              str_slice(bytes, record.path_len, record.path_len + record.len));
        node->mtime_ns = record.mtime_ns;
        bytes = str_slice(bytes, record.path_len + record.len, bytes.len);
    }
    return 0;
}
