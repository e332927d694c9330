/* sandglass fs ...: files of a sandbox of a running server. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd/commands.h"
#include "cli/transfer_tree.h"

static const struct remote_column file_columns[] = {
    {"type", "TYPE"}, {"size", "SIZE"}, {"modifiedAt", "CHANGED"}, {"path", "PATH"}, {0}};
static const struct remote_column match_columns[] = {
    {"path", "PATH"}, {"line", "LINE"}, {"text", "TEXT"}, {0}};

static int cmd_fs_ask(const struct cli_call *call, const char *verb, const char *path,
                      const char *pattern, const char *list, const struct remote_column *columns,
                      struct err *err)
{
    AUTO_BUF struct buf route = {0}, body = {0}, id = {0};
    struct json_out out = {.buf = &body};
    if (remote_find_sandbox(call, call->args[0], true, &id, err) < 0)
        return -1;
    remote_path(&route, "/v1/sandboxes/%s/files/", buf_cstr(&id));
    buf_put_cstr(&route, verb);
    json_begin_object(&out);
    if (path != NULL)
        json_key(&out, "path"), json_put_cstr(&out, path);
    if (pattern != NULL)
        json_key(&out, "pattern"), json_put_cstr(&out, pattern);
    if (cli_has(call, "recursive"))
        json_key(&out, "recursive"), json_put_bool(&out, true);
    if (cli_has(call, "search-all"))
        json_key(&out, "searchAll"), json_put_bool(&out, true);
    json_end_object(&out);
    return remote_show(call, "POST", buf_cstr(&route), buf_cstr(&body), list, columns, err);
}

static int list(const struct cli_call *call, struct err *err)
{
    return cmd_fs_ask(call, "list", call->arg_count > 1 ? call->args[1] : NULL, NULL, "entries",
                      file_columns, err);
}

static int grep(const struct cli_call *call, struct err *err)
{
    return cmd_fs_ask(call, "grep", call->arg_count > 2 ? call->args[2] : NULL, call->args[1],
                      "matches", match_columns, err);
}

/* Paths one a line. */
static int glob(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf route = {0}, body = {0}, text = {0}, id = {0};
    struct json_out out = {.buf = &body};
    if (cli_has(call, "json"))
        return cmd_fs_ask(call, "glob", NULL, call->args[1], NULL, NULL, err);
    if (remote_find_sandbox(call, call->args[0], true, &id, err) < 0)
        return -1;
    remote_path(&route, "/v1/sandboxes/%s/files/glob", buf_cstr(&id));
    json_begin_object(&out);
    json_key(&out, "pattern"), json_put_cstr(&out, call->args[1]);
    if (cli_has(call, "search-all"))
        json_key(&out, "searchAll"), json_put_bool(&out, true);
    json_end_object(&out);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&route), buf_cstr(&body), &answer, err) < 0)
        return -1;
    remote_put_lines(json_get(answer, "paths"), &text);
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int cmd_fs_remove(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf route = {0}, id = {0};
    if (remote_find_sandbox(call, call->args[0], true, &id, err) < 0)
        return -1;
    remote_file_path(&route, buf_cstr(&id), "files", call->args[1]);
    if (cli_has(call, "recursive"))
        buf_put_cstr(&route, "&recursive=true");
    return remote_show(call, "DELETE", buf_cstr(&route), NULL, NULL, NULL, err);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static int download(const struct cli_call *call, const char *sandbox, const char *path,
                    const char *file, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    remote_file_path(&route, sandbox, "files", path);
    return transfer_down_file(call, buf_cstr(&route), file, err) < 0 ? -1 : EXIT_OK;
}

static int upload(const struct cli_call *call, const char *sandbox, const char *path, int fd,
                  struct err *err)
{
    AUTO_BUF struct buf route = {0};
    remote_file_path(&route, sandbox, "files", path);
    return transfer_up(call, "PUT", buf_cstr(&route), fd, NULL, err) < 0 ? -1 : EXIT_OK;
}

static int cat(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf id = {0};
    return remote_find_sandbox(call, call->args[0], true, &id, err) < 0
               ? -1
               : download(call, buf_cstr(&id), call->args[1], "-", err);
}

static int put(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf id = {0};
    return remote_find_sandbox(call, call->args[0], true, &id, err) < 0
               ? -1
               : upload(call, buf_cstr(&id), call->args[1], STDIN_FILENO, err);
}

/* "SANDBOX:/path", where the sandbox may be "session:NAME", or a path of this machine. */
static bool is_far(const char *place, struct str *ret_sandbox, const char **ret_path)
{
    const char *colon = strstr(place, ":/");
    if (colon == NULL || colon == place || memchr(place, '/', (size_t)(colon - place)) != NULL)
        return false;
    *ret_sandbox = str_n(place, (size_t)(colon - place));
    *ret_path = colon + 1;
    return true;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Into a directory it keeps its name; "/" at the end says that there is one. */
static int copy_in(const struct cli_call *call, const char *file, const char *id, const char *path,
                   struct err *err)
{
    AUTO_BUF struct buf target = {0};
    struct stat st;
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open '%s'", file);
    buf_printf(&target, "%s%s", path, str_ends(str_of(path), STR("/")) ? last_name(file) : "");
    if (S_ISDIR(st.st_mode))
        return transfer_tree_up(call, file, id, buf_cstr(&target), err) < 0 ? -1 : EXIT_OK;
    return upload(call, id, buf_cstr(&target), fd, err);
}

/* The sandbox says what `path` is, links followed. */
static int is_far_directory(const struct cli_call *call, const char *id, const char *path,
                            struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf route = {0}, body = {0};
    struct json_out out = {.buf = &body};
    remote_path(&route, "/v1/sandboxes/%s/files/stat", id);
    json_begin_object(&out);
    json_key(&out, "path"), json_put_cstr(&out, path);
    json_end_object(&out);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&route), buf_cstr(&body), &answer, err) < 0)
        return -1;
    return str_eq(remote_text(json_get(answer, "file"), "type"), STR("directory"));
}

static int copy_out(const struct cli_call *call, const char *id, const char *path, const char *file,
                    struct err *err)
{
    AUTO_BUF struct buf target = {0};
    struct stat st;
    bool is_inside = stat(file, &st) == 0 && S_ISDIR(st.st_mode);
    int is_tree = is_far_directory(call, id, path, err);
    if (is_tree < 0)
        return -1;
    buf_printf(&target, "%s%s%s", file, is_inside ? "/" : "", is_inside ? last_name(path) : "");
    if (is_tree)
        return transfer_tree_down(call, id, path, buf_cstr(&target), err) < 0 ? -1 : EXIT_OK;
    return download(call, id, path, buf_cstr(&target), err);
}

static int copy(const struct cli_call *call, struct err *err)
{
    struct str from = {0}, to = {0};
    const char *path = NULL;
    AUTO_BUF struct buf given = {0}, id = {0};
    bool from_far = is_far(call->args[0], &from, &path);
    if (from_far == is_far(call->args[1], &to, from_far ? &(const char *){NULL} : &path))
        return err_set(err, ERR_INVALID,
                       "one argument of cp must be SANDBOX:/PATH, the other a local file");
    buf_put(&given, from_far ? from : to);
    if (remote_find_sandbox(call, buf_cstr(&given), true, &id, err) < 0)
        return -1;
    return from_far ? copy_out(call, buf_cstr(&id), path, call->args[1], err)
                    : copy_in(call, call->args[0], buf_cstr(&id), path, err);
}

static const struct cli_option search_options[] = {
    REMOTE_OPTIONS,
    {.name = "search-all", .help = "Also search .git, node_modules and .sandglass"},
    {0},
};
static const struct cli_option tree_options[] = {
    REMOTE_OPTIONS, {'r', "recursive", NULL, "Delete directories with their contents"}, {0}};

const struct cli_verb cmd_fs_ls = {
    .name = "fs ls",
    .args = "SANDBOX [DIR]",
    .summary = "List a directory in a sandbox",
    .options = tree_options,
    .args_min = 1,
    .args_max = 2,
    .run = list,
};
const struct cli_verb cmd_fs_glob = {
    .name = "fs glob",
    .args = "SANDBOX PATTERN",
    .summary = "Find files in a sandbox by pattern",
    .options = search_options,
    .args_min = 2,
    .args_max = 2,
    .run = glob,
};
const struct cli_verb cmd_fs_grep = {
    .name = "fs grep",
    .args = "SANDBOX REGEX [DIR]",
    .summary = "Search the files of a sandbox for lines",
    .options = search_options,
    .args_min = 2,
    .args_max = 3,
    .run = grep,
};
const struct cli_verb cmd_fs_rm = {
    .name = "fs rm",
    .args = "SANDBOX PATH",
    .summary = "Delete a file or directory in a sandbox",
    .options = tree_options,
    .args_min = 2,
    .args_max = 2,
    .run = cmd_fs_remove,
};
const struct cli_verb cmd_fs_cat = {
    .name = "fs cat",
    .args = "SANDBOX PATH",
    .summary = "Print a file from a sandbox",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = cat,
};
const struct cli_verb cmd_fs_put = {
    .name = "fs put",
    .args = "SANDBOX PATH",
    .summary = "Write standard input to a file in a sandbox",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = put,
};
const struct cli_verb cmd_cp = {
    .name = "cp",
    .args = "FROM TO",
    .summary = "Copy a file or directory to or from a sandbox",
    .details =
        "One argument is SANDBOX:/PATH, the other a file or directory of this machine. If the "
        "target is a directory of this machine, or a PATH that ends with '/', the copy keeps "
        "its name. A directory is merged into an existing one: files replace files.",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = copy,
};
