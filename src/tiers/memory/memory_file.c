/* What is asked of the files of a tree in memory, verb by verb: a row of `verbs` for each. */

#include "base/buf.h"
#include "base/err.h"
#include "files/files.h"
#include "files/glob.h"
#include "tiers/memory/memory_nodes.h"

struct verb {
    struct memory_tree *tree;
    const struct file_request *request;
    struct arena *arena;
    struct file_answer *answer;
    struct str path;
};

static void fill_info(const struct verb *verb, struct str path, const struct memory_node *node,
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
    if (verb->path.len > 0 && memory_tree_need(verb->tree, verb->path, err) == NULL)
        return -1;
    return done_with(verb, verb->path);
}

static int by_path(const void *a, const void *b)
{
    return str_cmp(((const struct file_info *)a)->path, ((const struct file_info *)b)->path);
}

static void answer_list(struct verb *verb, struct file_info *list, size_t count, size_t limit)
{
    qsort(list, count, sizeof *list, by_path);
    verb->answer->entries = list;
    verb->answer->entry_count = MIN(count, limit);
    verb->answer->truncated = count > limit;
}

static bool is_listed(const struct verb *verb, struct str path)
{
    if (!memory_tree_is_below(path, verb->path))
        return false;
    struct str below = str_slice(path, verb->path.len + 1, path.len);
    return verb->request->recursive || str_find_char(below, '/') == below.len;
}

static int do_list(struct verb *verb, struct err *err)
{
    size_t count = 0, limit = verb->request->limit;
    limit = limit == 0 ? FILE_LIST_MAX : MIN(limit, (size_t)FILE_LIST_MAX);
    if (memory_tree_need_dir(verb->tree, verb->path, err) < 0)
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
    answer_list(verb, list, count, limit);
    return done_with(verb, verb->path);
}

static int do_read(struct verb *verb, struct err *err)
{
    const struct memory_node *node = memory_tree_need_file(verb->tree, verb->path, err);
    if (node == NULL)
        return -1;
    size_t limit = verb->request->limit == 0 ? FILE_READ_MAX : verb->request->limit;
    size_t from = (size_t)MIN(verb->request->offset, (uint64_t)node->len);
    size_t to = MIN(node->len, from + limit);
    verb->answer->bytes = arena_dup(verb->arena, str_n(node->bytes + from, to - from));
    verb->answer->truncated = to < node->len;
    return done_with(verb, verb->path);
}

static int check_match(const struct verb *verb, const struct memory_node *node, struct err *err)
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
    struct memory_node *node = map_get(&verb->tree->nodes, verb->path);
    if (verb->path.len == 0 || (node != NULL && node->type == FILE_DIRECTORY))
        return err_set(err, ERR_NOT_A_FILE, "'%.*s' is a directory", STR_ARG(verb->path));
    if (node != NULL && request->must_be_new)
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(verb->path));
    if (check_match(verb, node, err) < 0 ||
        memory_tree_make_parents(verb->tree, verb->path, request->make_parents, err) < 0 ||
        memory_tree_make_room(verb->tree, request->bytes.len, err) < 0)
        return -1;
    uint32_t mode = request->mode == 0 ? 0644 : request->mode & 0777;
    verb->answer->created = node == NULL;
    if (node == NULL || node->type != FILE_REGULAR) /* a link is replaced, not followed */
        node = memory_tree_put(verb->tree, verb->path, FILE_REGULAR, mode);
    memory_tree_set_bytes(verb->tree, node, request->bytes);
    return done_with(verb, verb->path);
}

static int do_append(struct verb *verb, struct err *err)
{
    struct memory_node *node = map_get(&verb->tree->nodes, verb->path);
    if (node == NULL)
        return do_write(verb, err);
    if (node->type != FILE_REGULAR)
        return err_set(err, ERR_NOT_A_FILE, "'%.*s' is not a regular file", STR_ARG(verb->path));
    if (memory_tree_make_room(verb->tree, verb->request->bytes.len, err) < 0)
        return -1;
    AUTO_BUF struct buf all = {0};
    buf_put(&all, str_n(node->bytes, node->len));
    buf_put(&all, verb->request->bytes);
    memory_tree_set_bytes(verb->tree, node, buf_str(&all));
    return done_with(verb, verb->path);
}

static int do_mkdir(struct verb *verb, struct err *err)
{
    const struct memory_node *node = map_get(&verb->tree->nodes, verb->path);
    bool is_dir = verb->path.len == 0 || (node != NULL && node->type == FILE_DIRECTORY);
    if ((node != NULL || is_dir) && !(is_dir && verb->request->make_parents))
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(verb->path));
    if (!is_dir) {
        if (memory_tree_make_parents(verb->tree, verb->path, verb->request->make_parents, err) <
                0 ||
            memory_tree_make_room(verb->tree, 0, err) < 0)
            return -1;
        uint32_t mode = verb->request->mode == 0 ? 0755 : verb->request->mode & 0777;
        (void)memory_tree_put(verb->tree, verb->path, FILE_DIRECTORY, mode);
    }
    return done_with(verb, verb->path);
}

static int do_delete(struct verb *verb, struct err *err)
{
    const struct memory_node *node =
        verb->path.len == 0 ? NULL : memory_tree_need(verb->tree, verb->path, err);
    if (verb->path.len > 0 && node == NULL)
        return -1;
    if (!verb->request->recursive && (node == NULL || node->type == FILE_DIRECTORY))
        MAP_EACH (entry, &verb->tree->nodes)
            if (memory_tree_is_below(entry->key, verb->path))
                return err_set(err, ERR_CONFLICT, "'%.*s' is not empty", STR_ARG(verb->path));
    verb->answer->count = memory_tree_drop(verb->tree, verb->path);
    return 0;
}

static void rename_all(struct verb *verb, struct str to)
{
    struct memory_tree *tree = verb->tree;
    /* Names are collected first: the map may not grow while it is walked. */
    size_t count = 0;
    struct str *names = arena_array(verb->arena, struct str, tree->nodes.len + 1);
    MAP_EACH (entry, &tree->nodes)
        if (memory_tree_is_below(entry->key, verb->path) || str_eq(entry->key, verb->path))
            names[count++] = arena_dup(verb->arena, entry->key);
    for (size_t i = 0; i < count; i++) {
        struct str tail = str_slice(names[i], verb->path.len, names[i].len);
        struct str name = arena_printf(verb->arena, "%.*s%.*s", STR_ARG(to), STR_ARG(tail));
        (void)map_put(&tree->nodes, name, map_remove(&tree->nodes, names[i]));
    }
}

static int do_move(struct verb *verb, struct err *err)
{
    struct str to = {0};
    struct memory_tree *tree = verb->tree;
    if (memory_tree_path(verb->request->to, verb->arena, &to, err) < 0 ||
        memory_tree_need(tree, verb->path, err) == NULL ||
        memory_tree_make_parents(tree, to, false, err) < 0)
        return -1;
    if (to.len == 0 || memory_tree_is_below(to, verb->path) || str_eq(to, verb->path))
        return err_set(err, ERR_INVALID, "'%.*s' cannot be moved there", STR_ARG(verb->path));
    const struct memory_node *there = map_get(&tree->nodes, to);
    if (there != NULL && (!verb->request->replace || there->type == FILE_DIRECTORY))
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(to));
    (void)memory_tree_drop(tree, to);
    rename_all(verb, to);
    return done_with(verb, to);
}

static int do_chmod(struct verb *verb, struct err *err)
{
    struct memory_node *node = memory_tree_need(verb->tree, verb->path, err);
    if (node == NULL)
        return -1;
    node->mode = verb->request->mode & 0777;
    return done_with(verb, verb->path);
}

static int do_symlink(struct verb *verb, struct err *err)
{
    if (verb->path.len == 0 || map_get(&verb->tree->nodes, verb->path) != NULL)
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(verb->path));
    if (memory_tree_make_parents(verb->tree, verb->path, false, err) < 0 ||
        memory_tree_make_room(verb->tree, verb->request->to.len, err) < 0)
        return -1;
    memory_tree_set_bytes(verb->tree, memory_tree_put(verb->tree, verb->path, FILE_SYMLINK, 0777),
                          verb->request->to);
    return done_with(verb, verb->path);
}

static int do_edit(struct verb *verb, struct err *err)
{
    struct memory_node *node = memory_tree_need_file(verb->tree, verb->path, err);
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
        return err_set(err, ERR_AMBIGUOUS_MATCH, "the text occurs %llu times in '%.*s'",
                       (unsigned long long)count, STR_ARG(verb->path));
    if (memory_tree_make_room(verb->tree, out.len, err) < 0)
        return -1;
    memory_tree_set_bytes(verb->tree, node, buf_str(&out));
    verb->answer->count = count;
    return done_with(verb, verb->path);
}

static bool is_below_usual(struct str path, struct str asked)
{
    for (size_t i = 0; i < path.len; i++)
        if (path.ptr[i] == '/' && files_is_usual(str_slice(path, 0, i), asked))
            return true;
    return false;
}

static int do_glob(struct verb *verb, struct err *err)
{
    size_t count = 0, limit = verb->request->limit;
    AUTO_GLOB struct glob *glob = NULL;
    limit = limit == 0 ? FILE_MATCHES_MAX : limit;
    if (memory_tree_need_dir(verb->tree, verb->path, err) < 0 ||
        glob_new(verb->request->pattern, &glob, err) < 0)
        return -1;
    struct file_info *list = arena_array(verb->arena, struct file_info, verb->tree->nodes.len + 1);
    MAP_EACH (entry, &verb->tree->nodes) {
        const struct memory_node *node = entry->value;
        if (!memory_tree_is_below(entry->key, verb->path) || node->type == FILE_DIRECTORY)
            continue;
        struct str below = str_slice(entry->key, verb->path.len + 1, entry->key.len);
        bool is_left_out =
            !verb->request->search_all && is_below_usual(below, verb->request->pattern);
        if (!is_left_out && glob_match(glob, below))
            fill_info(verb, file_path_below(verb->path, below, verb->arena), node, &list[count++]);
    }
    answer_list(verb, list, count, limit);
    return 0;
}

int memory_tree_file(struct memory_tree *tree, const struct file_request *request,
                     struct arena *arena, struct file_answer *ret_answer, struct err *err)
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
        return err_set(
            err, ERR_UNSUPPORTED,
            "a sandbox of the tier 'memory' cannot grep; read its files, or use a tier that can");
    if (memory_tree_path(request->path, arena, &verb.path, err) < 0 ||
        verbs[request->op](&verb, err) < 0)
        return -1;
    *ret_answer = answer;
    return 0;
}
