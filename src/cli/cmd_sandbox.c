/* sandglass sandbox ...: sandboxes of a running server. */

#include "cli/commands.h"
#include "cli/net_arg.h"
#include "cli/remote.h"

static const struct remote_column columns[] = {
    {"id", "ID"},
    {"name", "NAME"},
    {"tier", "TIER"},
    {"state", "STATE"},
    {"createdAt", "MADE"},
    {"expiresAt", "EXPIRES"},
    {0},
};

static const struct remote_column checkpoint_columns[] = {
    {"id", "ID"}, {"name", "NAME"}, {"createdAt", "MADE"}, {0}};

static void put_list(const struct cli_call *call, const char *option, const char *member,
                     struct json_out *out)
{
    if (cli_value(call, option) == NULL)
        return;
    json_key(out, member), json_begin_array(out);
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, option) == 0)
            json_put_cstr(out, call->given[i].value);
    json_end_array(out);
}

static int create(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {.wipes = true};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "tier", &out);
    remote_put_text(call, "runtime", &out);
    remote_put_text(call, "name", &out);
    remote_put_text(call, "volume", &out);
    put_list(call, "snapshot", "snapshots", &out);
    if (remote_put_pairs(call, "env", "env", &out, err) < 0 ||
        remote_put_pairs(call, "label", "metadata", &out, err) < 0 ||
        net_put_members(call, &out, err) < 0 ||
        remote_put_number(call, "timeout-ms", "timeoutMs", &out, err) < 0 ||
        remote_put_number(call, "idle-ms", "idleMs", &out, err) < 0)
        return -1;
    json_end_object(&out);
    return remote_show_made(call, "/v1/sandboxes", buf_cstr(&body), columns, err);
}

static int list(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    const char *state = cli_value(call, "state");
    buf_put_cstr(&path, "/v1/sandboxes?limit=1000");
    if (state != NULL)
        remote_path(&path, "&state=%s", state);
    return remote_show(call, "GET", buf_cstr(&path), NULL, "sandboxes", columns, err);
}

static int on_one(const struct cli_call *call, const char *method, const char *format,
                  const char *body, const char *list_member, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    remote_path(&path, format, call->args[0]);
    return remote_show(call, method, buf_cstr(&path), body, list_member, columns, err);
}

static int get(const struct cli_call *call, struct err *err)
{
    return on_one(call, "GET", "/v1/sandboxes/%s", NULL, NULL, err);
}
static int pause_it(const struct cli_call *call, struct err *err)
{
    return on_one(call, "POST", "/v1/sandboxes/%s/pause", NULL, NULL, err);
}
static int resume(const struct cli_call *call, struct err *err)
{
    return on_one(call, "POST", "/v1/sandboxes/%s/resume", NULL, NULL, err);
}
static int stop(const struct cli_call *call, struct err *err)
{
    return on_one(call, "POST", "/v1/sandboxes/%s/stop", NULL, NULL, err);
}
static int remove_it(const struct cli_call *call, struct err *err)
{
    return on_one(call, "DELETE", "/v1/sandboxes/%s", NULL, NULL, err);
}

static int update(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {.wipes = true};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    if (remote_put_pairs(call, "label", "metadata", &out, err) < 0 ||
        net_put_members(call, &out, err) < 0 ||
        remote_put_number(call, "timeout-ms", "timeoutMs", &out, err) < 0)
        return -1;
    json_end_object(&out);
    if (str_eq(buf_str(&body), STR("{}")))
        return err_set(err, ERR_INVALID, "sandbox update: nothing to change was given");
    return on_one(call, "PATCH", "/v1/sandboxes/%s", buf_cstr(&body), NULL, err);
}

/* What became of the interpreters: one line each, of every fork that has some. */
static void put_contexts(const struct json_t *sandboxes, struct buf *out)
{
    for (size_t i = 0; sandboxes != NULL && i < json_len(sandboxes); i++) {
        const struct json_t *sandbox = json_at(sandboxes, i);
        const struct json_t *contexts = json_get(sandbox, "contexts");
        for (size_t k = 0; contexts != NULL && k < json_len(contexts); k++) {
            const struct json_t *context = json_at(contexts, k);
            struct str reason = remote_text(context, "reason");
            bool is_live = false;
            (void)!json_to_bool(json_get(context, "live"), &is_live);
            cli_put_plain(out, remote_text(sandbox, "id"));
            buf_put_cstr(out, ": context ");
            cli_put_plain(out, remote_text(context, "id"));
            buf_put_cstr(out, is_live ? " goes on with its variables" : " begins anew");
            buf_put_cstr(out, reason.len > 0 ? ": " : "");
            cli_put_plain(out, reason);
            buf_put_char(out, '\n');
        }
    }
}

static int fork_it(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf body = {0}, path = {0}, text = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    if (remote_put_number(call, "count", "count", &out, err) < 0)
        return -1;
    remote_put_text(call, "checkpoint", &out);
    json_end_object(&out);
    if (cli_has(call, "json"))
        return on_one(call, "POST", "/v1/sandboxes/%s/fork", buf_cstr(&body), "sandboxes", err);
    remote_path(&path, "/v1/sandboxes/%s/fork", call->args[0]);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &answer, err) < 0)
        return -1;
    remote_put_table(json_get(answer, "sandboxes"), columns, &text);
    put_contexts(json_get(answer, "sandboxes"), &text);
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int checkpoint(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0}, path = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    json_end_object(&out);
    remote_path(&path, "/v1/sandboxes/%s/checkpoints", call->args[0]);
    return remote_show_made(call, buf_cstr(&path), buf_cstr(&body), checkpoint_columns, err);
}

static int rollback(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    json_key(&out, "checkpoint"), json_put_cstr(&out, call->args[1]);
    json_end_object(&out);
    return on_one(call, "POST", "/v1/sandboxes/%s/rollback", buf_cstr(&body), NULL, err);
}

#define NETWORK_OPTIONS                                                                            \
    {.name = "network",                                                                            \
     .value = "POLICY",                                                                            \
     .help = "Where it may go: none, public, or allow HOST, ... (none)"},                          \
        NET_OPTIONS("Let it reach this host, the server's group npm or pypi, or 'public'",         \
                    "Let requests to HOST carry a key that nothing inside sees; NAME alone is "    \
                    "one of the server's configuration")

static const struct cli_option create_options[] = {
    REMOTE_OPTIONS,
    {0, "tier", "TIER", "jail, isolate or memory (as configured)"},
    {0, "runtime", "NAME", "What its code is run with: python3, node24, bash, ... (as configured)"},
    {0, "name", "NAME", "A name for people"},
    {0, "snapshot", "NAME", "Begin with this snapshot; above those before it", .repeated = true},
    {0, "volume", "ID", "The volume at /workspace"},
    NETWORK_OPTIONS,
    {'e', "env", "NAME=VALUE", "An environment variable", .repeated = true},
    {0, "label", "NAME=VALUE", "A label to find it by", .repeated = true},
    {0, "timeout-ms", "N", "Pause it after so many milliseconds; -1 for never"},
    {0, "idle-ms", "N", "Pause it after so many without work; -1 for never"},
    {0},
};
static const struct cli_option update_options[] = {
    REMOTE_OPTIONS,
    {0, "name", "NAME", "A name for people"},
    NETWORK_OPTIONS,
    {.name = "no-secrets", .help = "Take all its secrets away"},
    {0, "label", "NAME=VALUE", "The labels to find it by, instead of all others", .repeated = true},
    {0, "timeout-ms", "N", "Pause it so many milliseconds from now; -1 for never"},
    {0},
};
static const struct cli_option checkpoint_options[] = {
    REMOTE_OPTIONS, {0, "name", "NAME", "A name to go back by (its id)"}, {0}};
static const struct cli_option list_options[] = {
    REMOTE_OPTIONS, {0, "state", "STATES", "Of these states alone: running,paused"}, {0}};
static const struct cli_option fork_options[] = {
    REMOTE_OPTIONS,
    {0, "count", "N", "How many (1)"},
    {0, "checkpoint", "NAME", "With the state of this checkpoint"},
    {0}};

REMOTE_VERB(cmd_sandbox_create, "sandbox create", "", "Make a sandbox and print its id",
            create_options, 0, create);
REMOTE_VERB(cmd_sandbox_ls, "sandbox ls", "", "List sandboxes", list_options, 0, list);
REMOTE_VERB(cmd_sandbox_get, "sandbox get", "ID", "Look at a sandbox", remote_only, 1, get);
REMOTE_VERB(cmd_sandbox_update, "sandbox update", "ID",
            "Change a living sandbox, its network at once", update_options, 1, update);
REMOTE_VERB(cmd_sandbox_pause, "sandbox pause", "ID", "Pause a sandbox", remote_only, 1, pause_it);
REMOTE_VERB(cmd_sandbox_resume, "sandbox resume", "ID", "Resume a sandbox", remote_only, 1, resume);
REMOTE_VERB(cmd_sandbox_stop, "sandbox stop", "ID", "Stop a sandbox; its record stays", remote_only,
            1, stop);
REMOTE_VERB(cmd_sandbox_rm, "sandbox rm", "ID", "Delete a sandbox", remote_only, 1, remove_it);
REMOTE_VERB(cmd_sandbox_fork, "sandbox fork", "ID", "Make sandboxes with this one's state",
            fork_options, 1, fork_it);
REMOTE_VERB(cmd_sandbox_checkpoint, "sandbox checkpoint", "ID", "Keep a sandbox's present state",
            checkpoint_options, 1, checkpoint);
REMOTE_VERB(cmd_sandbox_rollback, "sandbox rollback", "ID CHECKPOINT",
            "Go back to a checkpoint; commands end", remote_only, 2, rollback);
