/* sandglass sandbox and session: checkpoints, undo, diff. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"

static const struct remote_column columns[] = {
    {"id", "ID"},
    {"createdAt", "CREATED"},
    {"automatic", "AUTOMATIC"},
    {"before", "BEFORE"},
    {"name", "NAME"},
    {"sizeBytes", "BYTES"},
    {0},
};

/* The path of a verb. Where a sandbox is taken, a session is too; it need not have a sandbox now.
 */
static int turn_path(const struct cli_call *call, const char *noun, const char *verb,
                     struct buf *ret_path, struct err *err)
{
    AUTO_BUF struct buf name = {0};
    bool is_session = strcmp(noun, "session") == 0;
    if (is_session)
        buf_put_cstr(&name, call->args[0]);
    else if (remote_find_kind(call, call->args[0], &is_session, &name, err) < 0)
        return -1;
    remote_path(ret_path, is_session ? "/v1/sessions/%s/" : "/v1/sandboxes/%s/", buf_cstr(&name));
    buf_put_cstr(ret_path, verb);
    return 0;
}

static int list(const struct cli_call *call, const char *noun, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0}, text = {0};
    if (turn_path(call, noun, "checkpoints", &path, err) < 0)
        return -1;
    if (cli_has(call, "json"))
        return remote_show(call, "GET", buf_cstr(&path), NULL, "checkpoints", columns, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    remote_put_table(json_get(answer, "checkpoints"), columns, &text);
    cli_print(buf_str(&text));
    struct str note = remote_text(answer, "note");
    if (note.len > 0)
        (void)fprintf(stderr, "sandglass: %.*s (%.*s)\n", STR_ARG(note),
                      STR_ARG(remote_text(answer, "noteAt")));
    return EXIT_OK;
}

static int undo(const struct cli_call *call, const char *noun, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0}, body = {0}, text = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "to", &out);
    json_end_object(&out);
    if (turn_path(call, noun, "undo", &path, err) < 0)
        return -1;
    if (cli_has(call, "json"))
        return remote_show(call, "POST", buf_cstr(&path), buf_cstr(&body), NULL, columns, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &answer, err) < 0)
        return -1;
    buf_printf(&text, "/workspace was restored to its state before %.*s at %.*s\n",
               STR_ARG(remote_text(answer, "before")), STR_ARG(remote_text(answer, "createdAt")));
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static void turn_put_file(const struct json_t *file, struct buf *out)
{
    struct str path = remote_text(file, "path"), text = remote_text(file, "text");
    int64_t before = 0, after = 0;
    bool had = json_to_i64(json_get(file, "sizeBefore"), &before);
    bool has = json_to_i64(json_get(file, "sizeAfter"), &after);
    buf_printf(out, "%-7.*s  %.*s  ", STR_ARG(remote_text(file, "change")), STR_ARG(path));
    if (had && has)
        buf_printf(out, "%lld -> %lld bytes\n", (long long)before, (long long)after);
    else
        buf_printf(out, "%lld bytes\n", (long long)(had ? before : after));
    if (text.len == 0)
        return;
    buf_printf(out, "--- %.*s\n+++ %.*s\n", STR_ARG(had ? path : STR("/dev/null")),
               STR_ARG(has ? path : STR("/dev/null")));
    buf_put(out, text);
}

static int diff(const struct cli_call *call, const char *noun, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0}, text = buf_with_limit(64 << 20);
    bool is_cut = false;
    if (turn_path(call, noun, "diff", &path, err) < 0)
        return -1;
    if (cli_value(call, "from") != NULL)
        remote_path(&path, "?from=%s", cli_value(call, "from"));
    if (cli_value(call, "to") != NULL)
        remote_path(&path, cli_value(call, "from") != NULL ? "&to=%s" : "?to=%s",
                    cli_value(call, "to"));
    if (cli_has(call, "json"))
        return remote_show(call, "GET", buf_cstr(&path), NULL, "files", columns, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    const struct json_t *files = json_get(answer, "files");
    for (size_t i = 0; i < json_len(files); i++)
        turn_put_file(json_at(files, i), &text);
    cli_print(buf_str(&text));
    if (json_to_bool(json_get(answer, "truncated"), &is_cut) && is_cut)
        (void)fprintf(stderr, "sandglass: only the first %zu changed files are shown\n",
                      json_len(files));
    return EXIT_OK;
}

#define VERB(noun, verb) static int noun##_##verb(const struct cli_call *call, struct err *err)
VERB(sandbox, list)
{
    return list(call, "sandbox", err);
}
VERB(sandbox, undo)
{
    return undo(call, "sandbox", err);
}
VERB(sandbox, diff)
{
    return diff(call, "sandbox", err);
}
VERB(session, list)
{
    return list(call, "session", err);
}
VERB(session, undo)
{
    return undo(call, "session", err);
}
VERB(session, diff)
{
    return diff(call, "session", err);
}

static const struct cli_option undo_options[] = {
    REMOTE_OPTIONS,
    {0, "to", "ID", "Restore this automatic checkpoint (default: one step back)"},
    {0}};
static const struct cli_option diff_options[] = {
    REMOTE_OPTIONS,
    {0, "from", "ID", "Compare this automatic checkpoint (default: the newest)"},
    {0, "to", "ID", "with this one (default: the current /workspace)"},
    {0}};

REMOTE_VERB(cmd_sandbox_checkpoints, "sandbox checkpoints", "SANDBOX",
            "List a sandbox's checkpoints", remote_only, 1, sandbox_list);
REMOTE_VERB(cmd_sandbox_undo, "sandbox undo", "SANDBOX",
            "Undo the last file changes in /workspace; programs keep running", undo_options, 1,
            sandbox_undo);
REMOTE_VERB(cmd_sandbox_diff, "sandbox diff", "SANDBOX", "Show what changed since a checkpoint",
            diff_options, 1, sandbox_diff);
REMOTE_VERB(cmd_session_checkpoints, "session checkpoints", "ID", "List a session's checkpoints",
            remote_only, 1, session_list);
REMOTE_VERB(cmd_session_undo, "session undo", "ID",
            "Undo the last file changes in /workspace; programs keep running", undo_options, 1,
            session_undo);
REMOTE_VERB(cmd_session_diff, "session diff", "ID", "Show what changed since a checkpoint",
            diff_options, 1, session_diff);
