#include "engine/memory_tree.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "files/glob.h"

struct node {
    enum file_type type;
    uint32_t mode;
    int64_t mtime_ns;
    char *bytes; /* of a link: its target */
    size_t len;
};

static struct node *node_free(struct node *node)
{
    if (node != NULL) {
        free(node->bytes);
        free(node);
    }
    return NULL;
}

void tree_done(struct tree *tree)
{
    MAP_EACH (entry, &tree->nodes)
        (void)node_free(entry->value);
    map_done(&tree->nodes);
    *tree = (struct tree){.bytes_max = tree->bytes_max};
}

static int64_t now_ns(void)
{
    return clock_date_ms() * 1000000;
}

/* --- Paths --- */

/* "/a//b/" becomes "/a/b", the root "". */
static int check_path(struct str path, struct arena *arena, struct str *ret_path, struct err *err)
{
    char *out = arena_alloc(arena, path.len + 2);
    size_t len = 0;
    struct str rest = path, part;
    if (path.len == 0 || path.ptr[0] != '/' || path.len > FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "path: absolute and at most %d bytes, please",
                       FILE_PATH_MAX);
    if (str_find_char(path, '\0') != path.len)
        return err_set(err, ERR_INVALID, "path: holds a NUL");
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")))
            continue;
        if (str_eq(part, STR("..")) || part.len > 255)
            return err_set(err, ERR_INVALID, "path: '%.*s' cannot be part of one",
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

static bool is_below(struct str path, struct str dir)
{
    return path.len > dir.len && str_starts(path, dir) && path.ptr[dir.len] == '/';
}

static struct node *need(struct tree *tree, struct str path, struct err *err)
{
    struct node *node = map_get(&tree->nodes, path);
    if (node == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "no file '%.*s'", STR_ARG(path));
    return node;
}

static struct node *need_file(struct tree *tree, struct str path, struct err *err)
{
    struct node *node = need(tree, path, err);
    if (node != NULL && node->type != FILE_REGULAR) {
        (void)err_set(err, ERR_NOT_A_FILE, "'%.*s' is not a regular file", STR_ARG(path));
        return NULL;
    }
    return node;
}

static int need_dir(struct tree *tree, struct str path, struct err *err)
{
    const struct node *node = path.len == 0 ? NULL : need(tree, path, err);
    if (path.len > 0 && node == NULL)
        return -1;
    if (node != NULL && node->type != FILE_DIRECTORY)
        return err_set(err, ERR_NOT_A_DIRECTORY, "'%.*s' is not a directory", STR_ARG(path));
    return 0;
}

/* --- Changing --- */

static int make_room(const struct tree *tree, size_t more, struct err *err)
{
    uint64_t limit = tree->bytes_max == 0 ? TREE_BYTES_MAX : tree->bytes_max;
    if (tree->nodes.len >= TREE_NODES_MAX)
        return err_set(err, ERR_NO_SPACE, "more than %d files", TREE_NODES_MAX);
    if (tree->bytes + more > limit)
        return err_set(err, ERR_NO_SPACE, "more than %llu bytes in all files",
                       (unsigned long long)limit);
    return 0;
}

static struct node *put_node(struct tree *tree, struct str path, enum file_type type, uint32_t mode)
{
    struct node *node = mem_alloc(sizeof *node);
    *node = (struct node){.type = type, .mode = mode, .mtime_ns = now_ns()};
    struct node *old = map_put(&tree->nodes, path, node);
    if (old != NULL)
        tree->bytes -= old->len;
    (void)node_free(old);
    return node;
}

static void set_bytes(struct tree *tree, struct node *node, struct str bytes)
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

static int make_parents(struct tree *tree, struct str path, bool make, struct err *err)
{
    struct str parent = parent_of(path);
    if (parent.len == 0)
        return 0;
    if (map_get(&tree->nodes, parent) != NULL || !make)
        return need_dir(tree, parent, err);
    if (make_parents(tree, parent, true, err) < 0 || make_room(tree, 0, err) < 0)
        return -1;
    (void)put_node(tree, parent, FILE_DIRECTORY, 0755);
    return 0;
}

/* --- Verbs --- */

struct verb {
    struct tree *tree;
    const struct file_request *request;
    struct arena *arena;
    struct file_answer *answer;
    struct str path;
};

static void fill_info(const struct verb *verb, struct str path, const struct node *node,
                      struct file_info *info)
{
    *info = (struct file_info){
        .path = path.len == 0 ? STR("/") : arena_dup(verb->arena, path),
        .type = node == NULL ? FILE_DIRECTORY : node->type,
        .mode = node == NULL ? 0755 : node->mode,
        .size = node == NULL ? 0 : node->len,
        .mtime_ns = node == NULL ? 0 : node->mtime_ns,
    };
    if (node != NULL && node->type == FILE_SYMLINK)
        info->target = arena_dup(verb->arena, str_n(node->bytes, node->len));
}

static int done_with(struct verb *verb, struct str path)
{
    fill_info(verb, path, map_get(&verb->tree->nodes, path), &verb->answer->info);
    return 0;
}

static int do_stat(struct verb *verb, struct err *err)
{
    if (verb->path.len > 0 && need(verb->tree, verb->path, err) == NULL)
        return -1;
    return done_with(verb, verb->path);
}

static int by_path(const void *a, const void *b)
{
    return str_cmp(((const struct file_info *)a)->path, ((const struct file_info *)b)->path);
}

static bool is_listed(const struct verb *verb, struct str path)
{
    if (!is_below(path, verb->path))
        return false;
    struct str below = str_slice(path, verb->path.len + 1, path.len);
    return verb->request->recursive || str_find_char(below, '/') == below.len;
}

static int do_list(struct verb *verb, struct err *err)
{
    size_t count = 0, limit = verb->request->limit;
    limit = limit == 0 ? FILE_LIST_MAX : MIN(limit, (size_t)FILE_LIST_MAX);
    if (need_dir(verb->tree, verb->path, err) < 0)
        return -1;
    struct file_info *list = arena_array(verb->arena, struct file_info, verb->tree->nodes.len + 1);
    MAP_EACH (entry, &verb->tree->nodes) {
        if (!is_listed(verb, entry->key))
            continue;
        struct str below = str_slice(entry->key, verb->path.len + 1, entry->key.len);
        if (verb->request->after.len > 0 && str_cmp(below, verb->request->after) <= 0)
            continue;
        fill_info(verb, below, entry->value, &list[count++]);
    }
    qsort(list, count, sizeof *list, by_path);
    verb->answer->entries = list;
    verb->answer->entry_count = MIN(count, limit);
    verb->answer->truncated = count > limit;
    return done_with(verb, verb->path);
}

static int do_read(struct verb *verb, struct err *err)
{
    const struct node *node = need_file(verb->tree, verb->path, err);
    if (node == NULL)
        return -1;
    size_t limit = verb->request->limit == 0 ? FILE_READ_MAX : verb->request->limit;
    size_t from = (size_t)MIN(verb->request->offset, (uint64_t)node->len);
    size_t to = MIN(node->len, from + limit);
    verb->answer->bytes = arena_dup(verb->arena, str_n(node->bytes + from, to - from));
    verb->answer->truncated = to < node->len;
    return done_with(verb, verb->path);
}

static int check_match(const struct verb *verb, const struct node *node, struct err *err)
{
    char etag[FILE_ETAG_SIZE] = "";
    struct file_info info = {0};
    if (verb->request->if_match.len == 0)
        return 0;
    if (node != NULL) {
        fill_info(verb, verb->path, node, &info);
        file_etag(&info, etag);
    }
    if (!str_eq(str_of(etag), verb->request->if_match))
        return err_set(err, ERR_NO_MATCH, "'%.*s' has changed", STR_ARG(verb->path));
    return 0;
}

static int do_write(struct verb *verb, struct err *err)
{
    const struct file_request *request = verb->request;
    struct node *node = map_get(&verb->tree->nodes, verb->path);
    if (verb->path.len == 0 || (node != NULL && node->type == FILE_DIRECTORY))
        return err_set(err, ERR_NOT_A_FILE, "'%.*s' is a directory", STR_ARG(verb->path));
    if (node != NULL && request->must_be_new)
        return err_set(err, ERR_CONFLICT, "'%.*s' is there already", STR_ARG(verb->path));
    if (check_match(verb, node, err) < 0 ||
        make_parents(verb->tree, verb->path, request->make_parents, err) < 0 ||
        make_room(verb->tree, request->bytes.len, err) < 0)
        return -1;
    uint32_t mode = request->mode == 0 ? 0644 : request->mode & 0777;
    verb->answer->created = node == NULL;
    if (node == NULL || node->type != FILE_REGULAR) /* a link is replaced, not followed */
        node = put_node(verb->tree, verb->path, FILE_REGULAR, mode);
    set_bytes(verb->tree, node, request->bytes);
    return done_with(verb, verb->path);
}

static int do_append(struct verb *verb, struct err *err)
{
    struct node *node = map_get(&verb->tree->nodes, verb->path);
    if (node == NULL)
        return do_write(verb, err);
    if (node->type != FILE_REGULAR)
        return err_set(err, ERR_NOT_A_FILE, "'%.*s' is not a regular file", STR_ARG(verb->path));
    if (make_room(verb->tree, verb->request->bytes.len, err) < 0)
        return -1;
    AUTO_BUF struct buf all = {0};
    buf_put(&all, str_n(node->bytes, node->len));
    buf_put(&all, verb->request->bytes);
    set_bytes(verb->tree, node, buf_str(&all));
    return done_with(verb, verb->path);
}

static int do_mkdir(struct verb *verb, struct err *err)
{
    const struct node *node = map_get(&verb->tree->nodes, verb->path);
    bool is_dir = verb->path.len == 0 || (node != NULL && node->type == FILE_DIRECTORY);
    if ((node != NULL || is_dir) && !(is_dir && verb->request->make_parents))
        return err_set(err, ERR_CONFLICT, "'%.*s' is there already", STR_ARG(verb->path));
    if (!is_dir) {
        if (make_parents(verb->tree, verb->path, verb->request->make_parents, err) < 0 ||
            make_room(verb->tree, 0, err) < 0)
            return -1;
        uint32_t mode = verb->request->mode == 0 ? 0755 : verb->request->mode & 0777;
        (void)put_node(verb->tree, verb->path, FILE_DIRECTORY, mode);
    }
    return done_with(verb, verb->path);
}

/* Everything below `path`, and itself. */
static uint64_t drop(struct tree *tree, struct str path)
{
    uint64_t count = 0;
    MAP_EACH (entry, &tree->nodes) {
        if (!is_below(entry->key, path) && !str_eq(entry->key, path))
            continue;
        struct node *node = map_remove(&tree->nodes, entry->key);
        tree->bytes -= node->len;
        (void)node_free(node);
        count++;
    }
    return count;
}

static int do_delete(struct verb *verb, struct err *err)
{
    const struct node *node = verb->path.len == 0 ? NULL : need(verb->tree, verb->path, err);
    if (verb->path.len > 0 && node == NULL)
        return -1;
    if (!verb->request->recursive && (node == NULL || node->type == FILE_DIRECTORY))
        MAP_EACH (entry, &verb->tree->nodes)
            if (is_below(entry->key, verb->path))
                return err_set(err, ERR_CONFLICT, "'%.*s' is not empty", STR_ARG(verb->path));
    verb->answer->count = drop(verb->tree, verb->path);
    return 0;
}

static int do_move(struct verb *verb, struct err *err)
{
    struct str to = {0};
    struct tree *tree = verb->tree;
    if (check_path(verb->request->to, verb->arena, &to, err) < 0 ||
        need(tree, verb->path, err) == NULL || make_parents(tree, to, false, err) < 0)
        return -1;
    if (to.len == 0 || is_below(to, verb->path) || str_eq(to, verb->path))
        return err_set(err, ERR_INVALID, "'%.*s' cannot go there", STR_ARG(verb->path));
    const struct node *there = map_get(&tree->nodes, to);
    if (there != NULL && (!verb->request->replace || there->type == FILE_DIRECTORY))
        return err_set(err, ERR_CONFLICT, "'%.*s' is there already", STR_ARG(to));
    (void)drop(tree, to);
    /* Names are collected first: the map may not grow while it is walked. */
    size_t count = 0;
    struct str *names = arena_array(verb->arena, struct str, tree->nodes.len + 1);
    MAP_EACH (entry, &tree->nodes)
        if (is_below(entry->key, verb->path) || str_eq(entry->key, verb->path))
            names[count++] = arena_dup(verb->arena, entry->key);
    for (size_t i = 0; i < count; i++) {
        struct str tail = str_slice(names[i], verb->path.len, names[i].len);
        struct str name = arena_printf(verb->arena, "%.*s%.*s", STR_ARG(to), STR_ARG(tail));
        (void)map_put(&tree->nodes, name, map_remove(&tree->nodes, names[i]));
    }
    return done_with(verb, to);
}

static int do_chmod(struct verb *verb, struct err *err)
{
    struct node *node = need(verb->tree, verb->path, err);
    if (node == NULL)
        return -1;
    node->mode = verb->request->mode & 0777;
    return done_with(verb, verb->path);
}

static int do_symlink(struct verb *verb, struct err *err)
{
    if (verb->path.len == 0 || map_get(&verb->tree->nodes, verb->path) != NULL)
        return err_set(err, ERR_CONFLICT, "'%.*s' is there already", STR_ARG(verb->path));
    if (make_parents(verb->tree, verb->path, false, err) < 0 ||
        make_room(verb->tree, verb->request->to.len, err) < 0)
        return -1;
    set_bytes(verb->tree, put_node(verb->tree, verb->path, FILE_SYMLINK, 0777), verb->request->to);
    return done_with(verb, verb->path);
}

static int do_edit(struct verb *verb, struct err *err)
{
    struct node *node = need_file(verb->tree, verb->path, err);
    struct str old = verb->request->old_text;
    AUTO_BUF struct buf out = {0};
    uint64_t count = 0;
    if (node == NULL)
        return -1;
    if (old.len == 0)
        return err_set(err, ERR_INVALID, "oldText: empty");
    struct str rest = str_n(node->bytes, node->len);
    for (size_t at; (at = str_find(rest, old)) < rest.len; count++) {
        buf_put(&out, str_slice(rest, 0, at));
        buf_put(&out, verb->request->new_text);
        rest = str_slice(rest, at + old.len, rest.len);
    }
    buf_put(&out, rest);
    if (count == 0)
        return err_set(err, ERR_NO_MATCH, "the text is not in '%.*s'", STR_ARG(verb->path));
    if (count > 1 && !verb->request->all)
        return err_set(err, ERR_AMBIGUOUS_MATCH, "the text is %llu times in '%.*s'",
                       (unsigned long long)count, STR_ARG(verb->path));
    if (make_room(verb->tree, out.len, err) < 0)
        return -1;
    set_bytes(verb->tree, node, buf_str(&out));
    verb->answer->count = count;
    return done_with(verb, verb->path);
}

static int do_glob(struct verb *verb, struct err *err)
{
    size_t count = 0, limit = verb->request->limit;
    AUTO_GLOB struct glob *glob = NULL;
    limit = limit == 0 ? FILE_MATCHES_MAX : limit;
    if (need_dir(verb->tree, verb->path, err) < 0 ||
        glob_new(verb->request->pattern, &glob, err) < 0)
        return -1;
    struct file_info *list = arena_array(verb->arena, struct file_info, verb->tree->nodes.len + 1);
    MAP_EACH (entry, &verb->tree->nodes) {
        const struct node *node = entry->value;
        if (!is_below(entry->key, verb->path) || node->type == FILE_DIRECTORY)
            continue;
        struct str below = str_slice(entry->key, verb->path.len + 1, entry->key.len);
        if (glob_match(glob, below))
            fill_info(verb, below, node, &list[count++]);
    }
    qsort(list, count, sizeof *list, by_path);
    verb->answer->entries = list;
    verb->answer->entry_count = MIN(count, limit);
    verb->answer->truncated = count > limit;
    return 0;
}

int tree_file(struct tree *tree, const struct file_request *request, struct arena *arena,
              struct file_answer *ret_answer, struct err *err)
{
    static int (*const verbs[FILE_OP_COUNT])(struct verb * verb, struct err * err) = {
        [FILE_STAT] = do_stat,     [FILE_LIST] = do_list,
        [FILE_READ] = do_read,     [FILE_WRITE] = do_write,
        [FILE_APPEND] = do_append, [FILE_MKDIR] = do_mkdir,
        [FILE_MOVE] = do_move,     [FILE_DELETE] = do_delete,
        [FILE_CHMOD] = do_chmod,   [FILE_SYMLINK_MAKE] = do_symlink,
        [FILE_EDIT] = do_edit,     [FILE_GLOB] = do_glob,
    };
    struct file_answer answer = {0};
    struct verb verb = {tree, request, arena, &answer, {0}};
    if (verbs[request->op] == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "a sandbox of the tier 'memory' cannot grep; read its files, or take a "
                       "tier that can");
    if (check_path(request->path, arena, &verb.path, err) < 0 || verbs[request->op](&verb, err) < 0)
        return -1;
    *ret_answer = answer;
    return 0;
}

/* --- As bytes --- */

#define MAGIC "SGT1"

struct record {
    uint32_t type, mode;
    int64_t mtime_ns;
    uint64_t path_len, len;
};

void tree_pack(const struct tree *tree, struct buf *out)
{
    buf_put_cstr(out, MAGIC);
    MAP_EACH (entry, &tree->nodes) {
        const struct node *node = entry->value;
        struct record record = {node->type, node->mode, node->mtime_ns, entry->key.len, node->len};
        buf_put(out, str_n((const char *)&record, sizeof record));
        buf_put(out, entry->key);
        buf_put(out, str_n(node->bytes, node->len));
    }
}

int tree_unpack(struct tree *tree, struct str bytes, struct err *err)
{
    struct record record;
    if (!str_starts(bytes, STR(MAGIC)))
        return err_set(err, ERR_INTERNAL, "these are not the bytes of a tree");
    bytes = str_slice(bytes, strlen(MAGIC), bytes.len);
    while (bytes.len > 0) {
        if (bytes.len < sizeof record)
            return err_set(err, ERR_INTERNAL, "the bytes of the tree are cut off");
        memcpy(&record, bytes.ptr, sizeof record);
        bytes = str_slice(bytes, sizeof record, bytes.len);
        if (record.path_len > bytes.len || record.len > bytes.len - record.path_len ||
            record.type > FILE_OTHER)
            return err_set(err, ERR_INTERNAL, "the bytes of the tree are damaged");
        struct node *node = put_node(tree, str_slice(bytes, 0, record.path_len),
                                     (enum file_type)record.type, record.mode);
        set_bytes(tree, node, str_slice(bytes, record.path_len, record.path_len + record.len));
        node->mtime_ns = record.mtime_ns;
        bytes = str_slice(bytes, record.path_len + record.len, bytes.len);
    }
    return 0;
}

void tree_copy(const struct tree *from, struct tree *to)
{
    MAP_EACH (entry, &from->nodes) {
        const struct node *node = entry->value;
        struct node *copy = put_node(to, entry->key, node->type, node->mode);
        set_bytes(to, copy, str_n(node->bytes, node->len));
        copy->mtime_ns = node->mtime_ns;
    }
}
