/* sandglass sandbox ...: sandboxes of a running server. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"
#include "cli/sandbox_arg.h"

static const struct remote_column columns[] = {
    {"id", "ID"},
    {"name", "NAME"},
    {"tier", "TIER"},
    {"state", "STATE"},
    {"createdAt", "CREATED"},
    {"expiresAt", "EXPIRES"},
    {"metadata", "LABELS"},
    {0},
};

static const struct remote_column block[] = {
    {"id", "id"},
    {"name", "name"},
    {"state", "state"},
    {"reason", "reason"},
    {"tier", "tier"},
    {"runtime", "runtime"},
    {"metadata", "labels"},
    {"session", "session"},
    {"volume", "volume"},
    {"snapshots", "snapshots"},
    {"forkedFrom", "forked from"},
    {"limits.memoryMb", "memory", REMOTE_SIZE},
    {"limits.diskMb", "disk", REMOTE_SIZE},
    {"limits.cpus", "cores"},
    {"limits.pids", "processes"},
    {"network", "network"},
    {"checkpointMode", "checkpoints"},
    {"idleMs", "idle limit", REMOTE_TIME},
    {"timeoutMs", "time limit", REMOTE_TIME},
    {"onTimeout", "at a limit"},
    {"createdAt", "created"},
    {"activeAt", "last active"},
    {"expiresAt", "expires"},
    {"endedAt", "ended"},
    {0},
};

static const struct remote_column checkpoint_columns[] = {
    {"id", "ID"}, {"name", "NAME"}, {"createdAt", "CREATED"}, {0}};

static int create(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {.wipes = true};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    remote_put_text(call, "volume", &out);
    if (sandbox_arg_put(call, &out, err) < 0 ||
        sandbox_arg_put_time(call, "idle", "idleMs", &out, err) < 0)
        return -1;
    json_end_object(&out);
    return remote_show_made(call, "/v1/sandboxes", buf_cstr(&body), columns, err);
}

/* The server takes all of them in one parameter, with commas between them. */
static int put_labels(const struct cli_call *call, struct buf *path, struct err *err)
{
    AUTO_BUF struct buf labels = {0};
    for (size_t i = 0; i < call->given_count; i++) {
        const char *label = call->given[i].value;
        if (strcmp(call->given[i].option->name, "label") != 0)
            continue;
        const char *equals = strchr(label, '=');
        if (equals == NULL || equals == label || strchr(label, ',') != NULL)
            return err_set(err, ERR_INVALID, "--label '%.80s' is not NAME=VALUE without a comma",
                           label);
        buf_printf(&labels, "%s%s", labels.len > 0 ? "," : "", label);
    }
    if (labels.len > 0)
        remote_path(path, "&metadata=%s", buf_cstr(&labels));
    return 0;
}

static int cmd_sandbox_list(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    const char *state = cli_value(call, "state");
    buf_put_cstr(&path, "/v1/sandboxes?limit=1000");
    if (state != NULL)
        remote_path(&path, "&state=%s", state);
    if (put_labels(call, &path, err) < 0)
        return -1;
    return remote_show(call, "GET", buf_cstr(&path), NULL, "sandboxes", columns, err);
}

static int on_one(const struct cli_call *call, const char *method, const char *format,
                  const char *body, const char *list_member, struct err *err)
{
    AUTO_BUF struct buf path = {0}, id = {0};
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0)
        return -1;
    remote_path(&path, format, buf_cstr(&id));
    return remote_show(call, method, buf_cstr(&path), body, list_member, columns, err);
}

static int get(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0}, id = {0};
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0)
        return -1;
    remote_path(&path, "/v1/sandboxes/%s", buf_cstr(&id));
    return remote_show_one(call, buf_cstr(&path), block, err);
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

static int update(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {.wipes = true};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    if (remote_put_pairs(call, "label", "metadata", &out, err) < 0 ||
        net_put_members(call, &out, err) < 0 || sandbox_arg_put_limits(call, &out, err) < 0 ||
        sandbox_arg_put_time(call, "timeout", "timeoutMs", &out, err) < 0)
        return -1;
    json_end_object(&out);
    if (str_eq(buf_str(&body), STR("{}")))
        return err_set(err, ERR_INVALID,
                       "sandbox update: no change given; see 'sandglass sandbox update --help'");
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
            buf_put_cstr(out, is_live ? " keeps its variables" : " starts without variables");
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
    AUTO_BUF struct buf body = {0}, path = {0}, text = {0}, id = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    if (remote_put_number(call, "count", "count", &out, err) < 0)
        return -1;
    remote_put_text(call, "checkpoint", &out);
    json_end_object(&out);
    if (cli_has(call, "json"))
        return on_one(call, "POST", "/v1/sandboxes/%s/fork", buf_cstr(&body), "sandboxes", err);
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0)
        return -1;
    remote_path(&path, "/v1/sandboxes/%s/fork", buf_cstr(&id));
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &answer, err) < 0)
        return -1;
    const struct json_t *sandboxes = json_get(answer, "sandboxes");
    remote_put_table(sandboxes, remote_made_columns(columns), &text);
    cli_print(buf_str(&text));
    buf_clear(&text);
    put_contexts(sandboxes, &text);
    (void)fputs(buf_cstr(&text), stderr);
    return EXIT_OK;
}

static int checkpoint(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0}, path = {0}, id = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    json_end_object(&out);
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0)
        return -1;
    remote_path(&path, "/v1/sandboxes/%s/checkpoints", buf_cstr(&id));
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

static const struct cli_option create_options[] = {
    REMOTE_OPTIONS,
    {0, "name", "NAME", "A display name"},
    {0, "volume", "ID", "Mount this volume at /workspace"},
    SANDBOX_OPTIONS,
    {0, "idle", "TIME", "Pause it after this idle time; none for never (default: as configured)"},
    {0},
};
static const struct cli_option update_options[] = {
    REMOTE_OPTIONS,
    {0, "name", "NAME", "A display name"},
    {0, "memory", "SIZE", "New memory limit, such as 512m or 2g"},
    {0, "cpus", "N", "New number of processor cores, such as 0.5 or 2"},
    {0, "disk", "SIZE", "New disk limit, such as 8g, if the host can change it"},
    SANDBOX_NETWORK_OPTIONS,
    {.name = "no-secrets", .help = "Remove all its secrets"},
    {0, "label", "NAME=VALUE", "Label; replaces all existing labels", .repeated = true},
    {0, "timeout", "TIME", "Pause it after this time, such as 30m or 8h; none for never"},
    {0},
};
static const struct cli_option checkpoint_options[] = {
    REMOTE_OPTIONS, {0, "name", "NAME", "A name for the checkpoint (default: its id)"}, {0}};
static const struct cli_option list_options[] = {
    REMOTE_OPTIONS,
    {0, "state", "STATES", "Only in these states: running,paused"},
    {.name = "label",
     .value = "NAME=VALUE",
     .help = "Only with this label; repeat the option to require several labels",
     .repeated = true},
    {0}};
static const struct cli_option fork_options[] = {
    REMOTE_OPTIONS,
    {0, "count", "N", "How many (default 1)"},
    {0, "checkpoint", "NAME", "Start from this checkpoint"},
    {0}};

REMOTE_VERB(cmd_sandbox_create, "sandbox create", "", "Create a sandbox and print its id",
            create_options, 0, create);
REMOTE_VERB(cmd_sandbox_ls, "sandbox ls", "", "List sandboxes", list_options, 0, cmd_sandbox_list);
REMOTE_VERB(cmd_sandbox_get, "sandbox get", "ID", "Show a sandbox", remote_only, 1, get);
REMOTE_VERB(cmd_sandbox_update, "sandbox update", "ID",
            "Change an existing sandbox; limits and network apply at once", update_options, 1,
            update);
REMOTE_VERB(cmd_sandbox_pause, "sandbox pause", "ID", "Pause a sandbox", remote_only, 1, pause_it);
REMOTE_VERB(cmd_sandbox_resume, "sandbox resume", "ID", "Resume a sandbox", remote_only, 1, resume);
REMOTE_VERB(cmd_sandbox_stop, "sandbox stop", "ID", "Stop a sandbox; its record is kept",
            remote_only, 1, stop);
REMOTE_VERB(cmd_sandbox_fork, "sandbox fork", "ID",
            "Fork a sandbox with its state and print the ids", fork_options, 1, fork_it);
REMOTE_VERB(cmd_sandbox_checkpoint, "sandbox checkpoint", "ID",
            "Save the current state of a sandbox", checkpoint_options, 1, checkpoint);
REMOTE_VERB(cmd_sandbox_rollback, "sandbox rollback", "ID CHECKPOINT",
            "Return to a checkpoint; running commands are killed", remote_only, 2, rollback);
