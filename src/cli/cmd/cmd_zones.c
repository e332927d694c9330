/* sandglass fs --direct ZONE=DIR VERB PATH: the file façade over directories of this machine. The
 * process confines itself to them before it looks at the path. With --zone NAME the same over
 * directories that a server gives out. */

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/zone_remote.h"
#include "cli/zone_search.h"
#include "files/zones/zones.h"

static int take_direct(const char *given, char *space, size_t size, struct zones_options *options,
                       struct err *err)
{
    enum zone zone;
    struct str text = str_of(given);
    size_t equals = str_find_char(text, '=');
    if (equals == text.len || !zone_of_name(str_slice(text, 0, equals), &zone))
        return err_set(err, ERR_INVALID, "--direct %s: must be workspace=DIR or cache=DIR", given);
    if (str_to_cstr(str_slice(text, equals + 1, text.len), space, size, err) < 0)
        return -1;
    options->roots[zone] = space;
    return 0;
}

static int open_direct(const struct cli_call *call, struct zones **ret_zones, struct err *err)
{
    static char spaces[ZONE_COUNT][FILES_PATH_MAX];
    size_t used = 0;
    struct zones_options options = {.read_only = cli_has(call, "read-only")};
    for (size_t i = 0; i < call->given_count; i++) {
        if (!str_eq(str_of(call->given[i].option->name), STR("direct")))
            continue;
        if (used == ZONE_COUNT)
            return err_set(err, ERR_INVALID, "--direct: give it at most once for each zone");
        if (take_direct(call->given[i].value, spaces[used], sizeof spaces[used], &options, err) < 0)
            return -1;
        used++;
    }
    if (used == 0)
        return err_set(err, ERR_INVALID,
                       "no directory given: use --direct workspace=DIR, --root DIR or --zone NAME, "
                       "or for a sandbox fs ls, cat, put, rm, glob or grep");
    return zones_open(&options, ret_zones, err);
}

static int open_zones(const struct cli_call *call, struct zones **ret_zones, struct err *err)
{
    const char *root = cli_value(call, "root");
    if (root == NULL)
        return open_direct(call, ret_zones, err);
    if (cli_has(call, "direct"))
        return err_set(err, ERR_INVALID, "--root and --direct cannot be combined");
    return zones_open_below(root, cli_has(call, "read-only"), ret_zones, err);
}

static int read_it(UNUSED const struct cli_call *call, struct zones *zones, struct str path,
                   struct buf *out, struct err *err)
{
    return zones_read(zones, path, out, err);
}

static int write_it(UNUSED const struct cli_call *call, struct zones *zones, struct str path,
                    UNUSED struct buf *out, struct err *err)
{
    AUTO_BUF struct buf bytes = buf_with_limit(ZONES_FILE_MAX + 1);
    bool created;
    if (buf_read_all(&bytes, STDIN_FILENO, err) < 0)
        return -1;
    return zones_write(zones, path, buf_str(&bytes), &created, err);
}

static int delete_it(const struct cli_call *call, struct zones *zones, struct str path,
                     UNUSED struct buf *out, struct err *err)
{
    return zones_delete(zones, path, cli_has(call, "recursive"), err);
}

static int exists_it(UNUSED const struct cli_call *call, struct zones *zones, struct str path,
                     struct buf *out, struct err *err)
{
    bool exists;
    if (zones_exists(zones, path, &exists, err) < 0)
        return -1;
    buf_put_cstr(out, exists ? "true\n" : "false\n");
    return 0;
}

static int list_it(UNUSED const struct cli_call *call, struct zones *zones, struct str path,
                   struct buf *out, struct err *err)
{
    AUTO_BUF struct buf names = buf_with_limit(ZONES_FILE_MAX + 1);
    struct str rest, name;
    bool is_shown = isatty(STDOUT_FILENO) == 1; /* a program gets the bytes as they are */
    if (zones_list(zones, path, &names, err) < 0)
        return -1;
    rest = str_slice(buf_str(&names), 0, names.len - (names.len > 0)); /* each ends with a NUL */
    while (names.len > 0 && str_split(&rest, '\0', &name)) {
        if (is_shown)
            cli_put_plain(out, name);
        else
            buf_put(out, name);
        buf_put_char(out, '\n');
    }
    return 0;
}

static int resolve_it(UNUSED const struct cli_call *call, struct zones *zones, struct str path,
                      struct buf *out, struct err *err)
{
    if (zones_resolve(zones, path, out, err) < 0)
        return -1;
    buf_put_char(out, '\n');
    return 0;
}

typedef int zone_search(struct zones *zones, struct str path, struct str asked, struct buf *out,
                        struct err *err);

static int cmd_zones_search(const struct cli_call *call, struct zones *zones, struct str path,
                            zone_search *verb, struct err *err)
{
    AUTO_BUF struct buf asked = {0};
    AUTO_BUF struct buf answer = buf_with_limit(ZONES_FILE_MAX + 1);
    zone_search_put(call, false, &asked);
    if (verb(zones, path, buf_str(&asked), &answer, err) < 0)
        return -1;
    return zone_search_print(call, buf_str(&answer), err);
}

#define SEARCH(name, verb)                                                                         \
    static int name(const struct cli_call *call, struct zones *zones, struct str path,             \
                    UNUSED struct buf *out, struct err *err)                                       \
    {                                                                                              \
        return cmd_zones_search(call, zones, path, verb, err);                                     \
    }
SEARCH(glob_it, zones_glob)
SEARCH(grep_it, zones_grep)
SEARCH(edit_it, zones_edit)

static const struct zone_verb {
    const char *name;
    int (*run)(const struct cli_call *call, struct zones *zones, struct str path, struct buf *out,
               struct err *err);
} zone_verbs[] = {
    {"read", read_it},     {"write", write_it}, {"delete", delete_it},
    {"exists", exists_it}, {"list", list_it},   {"resolve", resolve_it},
    {"glob", glob_it},     {"grep", grep_it},   {"edit", edit_it},
};

static const struct zone_verb *verb_of(const struct cli_call *call, struct err *err)
{
    size_t args = zone_search_args(call->args[0]);
    for (size_t i = 0; i < countof(zone_verbs); i++)
        if (str_eq(str_of(call->args[0]), str_of(zone_verbs[i].name))) {
            if (call->arg_count == (args == 0 ? 2 : args))
                return &zone_verbs[i];
            (void)err_set(err, ERR_INVALID, "fs %s needs a path%s", call->args[0],
                          args == 0   ? ""
                          : args == 3 ? " and a pattern"
                                      : ", the old text and the new text");
            return NULL;
        }
    (void)err_set(err, ERR_INVALID,
                  "unknown command 'fs %s'; use read, write, delete, exists, list, resolve, glob, "
                  "grep, edit or serve",
                  call->args[0]);
    return NULL;
}

/* A program wants the code as well as the words. */
static int tell_error(const struct cli_call *call, const struct err *err)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (!cli_has(call, "json"))
        return -1;
    json_begin_object(&out);
    json_key(&out, "error");
    json_begin_object(&out);
    json_key(&out, "code"), json_put_cstr(&out, err_wire_name(err->code));
    json_key(&out, "message"), json_put_cstr(&out, err->msg);
    json_end_object(&out);
    json_end_object(&out);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_FAILED;
}

static int fs(const struct cli_call *call, struct err *err)
{
    AUTO_ZONES struct zones *zones = NULL;
    AUTO_BUF struct buf out = buf_with_limit(ZONES_FILE_MAX + 1);
    bool is_server = str_eq(str_of(call->args[0]), STR("serve"));
    const struct zone_verb *verb = is_server ? NULL : verb_of(call, err);
    if (!is_server && verb == NULL)
        return -1;
    if (cli_has(call, "zone")) {
        if (is_server || cli_has(call, "direct") || cli_has(call, "root"))
            return err_set(err, ERR_INVALID,
                           "--zone names a zone of a server: it cannot be combined with --root, "
                           "--direct or serve");
        return zone_remote(call, err) < 0 ? tell_error(call, err) : EXIT_OK;
    }
    if (open_zones(call, &zones, err) < 0 || zones_lock(zones, err) < 0)
        return -1;
    if (is_server)
        return zones_serve(zones, STDIN_FILENO, STDOUT_FILENO, err) < 0 ? -1 : EXIT_OK;
    if (verb->run(call, zones, str_of(call->args[1]), &out, err) < 0)
        return tell_error(call, err);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static const struct cli_option fs_options[] = {
    {0, "direct", "ZONE=DIR", "Directory of workspace or cache", .repeated = true},
    {0, "root", "DIR", "Both zones in one directory, created if missing"},
    {0, "zone", "NAME", "Directories that a server offers as [zones.NAME]"},
    {0, "url", "URL", "Server address (default: SANDGLASS_URL, else the local server)"},
    {0, "read-only", NULL, "Refuse all changes"},
    {'r', "recursive", NULL, "Delete a directory with its contents"},
    {0, "include", "GLOB", "grep: only in these files"},
    {'i', "ignore-case", NULL, "grep: ignore case"},
    {0, "search-all", NULL, "glob, grep: also search .git, node_modules and .sandglass"},
    {0, "all", NULL, "edit: replace every occurrence"},
    {0, "json", NULL, "Print errors and search results as JSON on standard output"},
    {0},
};

const struct cli_verb cmd_fs = {
    .name = "fs",
    .args = "VERB [PATH [PATTERN | OLD NEW]]",
    .summary = "Read and change directories of this machine or of a server as zones",
    .details = "VERB is read, write (from standard input), delete, exists, list, resolve (prints "
               "the path on this machine), glob and grep (with a pattern), edit (replaces OLD with "
               "NEW), or serve (requests on standard input, for the SDKs). PATH begins with "
               "/workspace or /cache. Paths and links cannot lead out of the directories.",
    .options = fs_options,
    .args_min = 1,
    .args_max = 4,
    .run = fs,
};
