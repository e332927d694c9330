/* sandglass fs ...: files of a sandbox of a running server. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/transfer.h"

static const struct remote_column file_columns[] = {
    {"type", "TYPE"}, {"size", "SIZE"}, {"modifiedAt", "CHANGED"}, {"path", "PATH"}, {0}};
static const struct remote_column match_columns[] = {
    {"path", "PATH"}, {"line", "LINE"}, {"text", "TEXT"}, {0}};

static int ask(const struct cli_call *call, const char *verb, const char *path, const char *pattern,
               const char *list, const struct remote_column *columns, struct err *err)
{
    AUTO_BUF struct buf door = {0};
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    remote_path(&door, "/v1/sandboxes/%s/files/", call->args[0]);
    buf_put_cstr(&door, verb);
    json_begin_object(&out);
    if (path != NULL)
        json_key(&out, "path"), json_put_cstr(&out, path);
    if (pattern != NULL)
        json_key(&out, "pattern"), json_put_cstr(&out, pattern);
    if (cli_has(call, "recursive"))
        json_key(&out, "recursive"), json_put_bool(&out, true);
    json_end_object(&out);
    return remote_show(call, "POST", buf_cstr(&door), buf_cstr(&body), list, columns, err);
}

static int list(const struct cli_call *call, struct err *err)
{
    return ask(call, "list", call->arg_count > 1 ? call->args[1] : NULL, NULL, "entries",
               file_columns, err);
}

static int grep(const struct cli_call *call, struct err *err)
{
    return ask(call, "grep", call->arg_count > 2 ? call->args[2] : NULL, call->args[1], "matches",
               match_columns, err);
}

/* Paths one a line. */
static int glob(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf door = {0};
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &body};
    if (cli_has(call, "json"))
        return ask(call, "glob", NULL, call->args[1], NULL, NULL, err);
    remote_path(&door, "/v1/sandboxes/%s/files/glob", call->args[0]);
    json_begin_object(&out);
    json_key(&out, "pattern"), json_put_cstr(&out, call->args[1]);
    json_end_object(&out);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&door), buf_cstr(&body), &answer, err) < 0)
        return -1;
    remote_put_lines(json_get(answer, "paths"), &text);
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int remove_it(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf door = {0};
    remote_file_path(&door, call->args[0], "files", call->args[1]);
    if (cli_has(call, "recursive"))
        buf_put_cstr(&door, "&recursive=true");
    return remote_show(call, "DELETE", buf_cstr(&door), NULL, NULL, NULL, err);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static int download(const struct cli_call *call, const char *sandbox, const char *path,
                    const char *file, struct err *err)
{
    AUTO_BUF struct buf door = {0};
    remote_file_path(&door, sandbox, "files", path);
    return transfer_down_file(call, buf_cstr(&door), file, err) < 0 ? -1 : EXIT_OK;
}

static int upload(const struct cli_call *call, const char *sandbox, const char *path, int fd,
                  struct err *err)
{
    AUTO_BUF struct buf door = {0};
    remote_file_path(&door, sandbox, "files", path);
    return transfer_up(call, "PUT", buf_cstr(&door), fd, NULL, err) < 0 ? -1 : EXIT_OK;
}

static int cat(const struct cli_call *call, struct err *err)
{
    return download(call, call->args[0], call->args[1], "-", err);
}

static int put(const struct cli_call *call, struct err *err)
{
    return upload(call, call->args[0], call->args[1], STDIN_FILENO, err);
}

/* "SANDBOX:/path" or a path of this machine. */
static bool is_far(const char *place, struct str *ret_sandbox, const char **ret_path)
{
    struct str text = str_of(place);
    size_t colon = str_find_char(text, ':');
    *ret_sandbox = str_slice(text, 0, colon);
    *ret_path = place + colon + 1;
    return colon < text.len && id_is_valid(*ret_sandbox) && (*ret_path)[0] == '/';
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
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID,
                       "'%.80s' is a directory and cp takes one file; a tree goes as a tar: "
                       "PUT /v1/sandboxes/%s/tar",
                       file, id);
    buf_printf(&target, "%s%s", path, str_ends(str_of(path), STR("/")) ? last_name(file) : "");
    return upload(call, id, buf_cstr(&target), fd, err);
}

static int copy_out(const struct cli_call *call, const char *id, const char *path, const char *file,
                    struct err *err)
{
    AUTO_BUF struct buf target = {0};
    struct stat st;
    bool is_inside = stat(file, &st) == 0 && S_ISDIR(st.st_mode);
    buf_printf(&target, "%s%s%s", file, is_inside ? "/" : "", is_inside ? last_name(path) : "");
    return download(call, id, path, buf_cstr(&target), err);
}

static int copy(const struct cli_call *call, struct err *err)
{
    struct str sandbox;
    const char *path;
    char id[80];
    bool from_far = is_far(call->args[0], &sandbox, &path);
    if (from_far == is_far(call->args[1], &(struct str){0}, &(const char *){NULL}))
        return err_set(err, ERR_INVALID, "one side of cp must be SANDBOX:/PATH, the other a file");
    if (!from_far)
        (void)is_far(call->args[1], &sandbox, &path);
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(sandbox));
    return from_far ? copy_out(call, id, path, call->args[1], err)
                    : copy_in(call, call->args[0], id, path, err);
}

static const struct cli_option tree_options[] = {
    REMOTE_OPTIONS, {'r', "recursive", NULL, "A directory with all that is in it"}, {0}};

const struct cli_verb cmd_fs_ls = {
    .name = "fs ls",
    .args = "SANDBOX [DIR]",
    .summary = "List a directory of a sandbox",
    .options = tree_options,
    .args_min = 1,
    .args_max = 2,
    .run = list,
};
const struct cli_verb cmd_fs_glob = {
    .name = "fs glob",
    .args = "SANDBOX PATTERN",
    .summary = "Find files of a sandbox by pattern",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = glob,
};
const struct cli_verb cmd_fs_grep = {
    .name = "fs grep",
    .args = "SANDBOX REGEX [DIR]",
    .summary = "Find lines in files of a sandbox",
    .options = remote_only,
    .args_min = 2,
    .args_max = 3,
    .run = grep,
};
const struct cli_verb cmd_fs_rm = {
    .name = "fs rm",
    .args = "SANDBOX PATH",
    .summary = "Delete a file or directory of a sandbox",
    .options = tree_options,
    .args_min = 2,
    .args_max = 2,
    .run = remove_it,
};
const struct cli_verb cmd_fs_cat = {
    .name = "fs cat",
    .args = "SANDBOX PATH",
    .summary = "Print a file of a sandbox",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = cat,
};
const struct cli_verb cmd_fs_put = {
    .name = "fs put",
    .args = "SANDBOX PATH",
    .summary = "Write standard input to a file of a sandbox",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = put,
};
const struct cli_verb cmd_cp = {
    .name = "cp",
    .args = "FROM TO",
    .summary = "Copy a file into a sandbox or out of it",
    .details =
        "One side is SANDBOX:/PATH, the other a file of this machine. Into a directory of this\n"
        "machine, and to a PATH that ends with '/', it goes under its own name.",
    .options = remote_only,
    .args_min = 2,
    .args_max = 2,
    .run = copy,
};
